import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def silu_mul_pairs(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """x: [ROWS, COLUMNS] with gate and up columns interleaved -> [ROWS, COLUMNS / 2]."""
    gate, up = tl.split(tl.reshape(x, [ROWS, COLUMNS // 2, 2]))
    return gate / (1 + tl.exp(-gate)) * up


@triton.jit
def prefetch_l2(ptrs):
    """Pull the 128-byte line at each pointer into L2."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [ptrs], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def gemv_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    residual_ptr,
    norm_weight_ptr,
    eps,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NORM: tl.constexpr,
    RESIDUAL: tl.constexpr,
    GATED: tl.constexpr,
    PDL: tl.constexpr,
):
    """BLOCK_N outputs over all of K a program. Its first weight tile is in registers before it waits for x."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    STRIDE: tl.constexpr = 2 * K if GATED else K
    tile_ptr = weight_ptr + n[:, None].to(tl.int64) * STRIDE + k[None, :]
    if PDL:
        gdc_launch_dependents()
    weight = tl.load(tile_ptr, eviction_policy="evict_first")
    if GATED:
        up_weight = tl.load(tile_ptr + K, eviction_policy="evict_first")
    if PDL:
        gdc_wait()
    acc = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    up_acc = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    squares = tl.zeros([BLOCK_K], tl.float32)
    for step in tl.static_range(K // BLOCK_K):
        if step > 0:
            weight = tl.load(tile_ptr + step * BLOCK_K, eviction_policy="evict_first")
            if GATED:
                up_weight = tl.load(tile_ptr + K + step * BLOCK_K, eviction_policy="evict_first")
        x = tl.load(x_ptr + step * BLOCK_K + k).to(tl.float32)
        if NORM:
            squares += x * x
            x = x * tl.load(norm_weight_ptr + step * BLOCK_K + k).to(tl.float32)
        acc += weight.to(tl.float32) * x[None, :]
        if GATED:
            up_acc += up_weight.to(tl.float32) * x[None, :]
    y = tl.sum(acc, 1)
    if NORM:
        scale = tl.rsqrt(tl.sum(squares, 0) / K + eps)
        y = y * scale
    if GATED:
        up = tl.sum(up_acc, 1)
        if NORM:
            up = up * scale
        y = y / (1 + tl.exp(-y)) * up
    if RESIDUAL:
        y += tl.load(residual_ptr + n).to(tl.float32)
    tl.store(out_ptr + n, y.to(out_ptr.dtype.element_ty))


@triton.jit(do_not_specialize=["num_rows"])
def skinny_kernel(
    x_desc,
    weight_desc,
    weight_ptr,
    out_ptr,
    num_rows,
    num_outputs,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    PREFETCH: tl.constexpr,
    GATED: tl.constexpr,
    PARTIAL: tl.constexpr,
    PDL: tl.constexpr,
):
    """(weight x^T)^T: the weight tile is the wide operand of the matrix unit. Grid (N tiles, splits of K, M tiles)."""
    tile_n = tl.program_id(0)
    split = tl.program_id(1)
    tile_m = tl.program_id(2)
    SPLIT_K: tl.constexpr = K // NUM_SPLITS
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    if PDL:
        gdc_launch_dependents()
        if PREFETCH > 0:
            line = 64 * tl.arange(0, PREFETCH // 64)
            row = tl.minimum(n, num_outputs - 1).to(tl.int64)
            prefetch_l2(weight_ptr + row[:, None] * K + split * SPLIT_K + line[None, :])
        gdc_wait()
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for step in tl.range(0, SPLIT_K // BLOCK_K, num_stages=STAGES):
        k = split * SPLIT_K + step * BLOCK_K
        weight = weight_desc.load([tile_n * BLOCK_N, k])
        x = x_desc.load([tile_m * BLOCK_M, k])
        acc = tl.dot(weight, x.T, acc)
    if GATED:
        y = silu_mul_pairs(acc.T, BLOCK_M, BLOCK_N)
        col = tile_n * (BLOCK_N // 2) + tl.arange(0, BLOCK_N // 2)
        offset = m[:, None] * (num_outputs // 2) + col[None, :]
        mask = (m < num_rows)[:, None] & (col < num_outputs // 2)[None, :]
        tl.store(out_ptr + offset, y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        first_row = 0
        if PARTIAL:
            first_row = split * num_rows
        offset = (first_row + m)[None, :] * num_outputs + n[:, None]
        mask = (m < num_rows)[None, :] & (n < num_outputs)[:, None]
        tl.store(out_ptr + offset, acc.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["num_rows"])
def oneshot_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    num_rows,
    num_outputs,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    GATED: tl.constexpr,
    PARTIAL: tl.constexpr,
    PDL: tl.constexpr,
):
    """Small weights, no loop: the tile [BLOCK_N, K / NUM_SPLITS] is loaded before the program waits for x."""
    tile_n = tl.program_id(0)
    split = tl.program_id(1)
    SPLIT_K: tl.constexpr = K // NUM_SPLITS
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = split * SPLIT_K + tl.arange(0, SPLIT_K)
    mask = (m < num_rows)[:, None]
    if PDL:
        gdc_launch_dependents()
    weight = tl.load(weight_ptr + n[:, None].to(tl.int64) * K + k[None, :], eviction_policy="evict_first")
    if PDL:
        gdc_wait()
    x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=mask, other=0.0)
    y = tl.dot(x, weight.T)
    if GATED:
        col = tile_n * (BLOCK_N // 2) + tl.arange(0, BLOCK_N // 2)
        y = silu_mul_pairs(y, BLOCK_M, BLOCK_N)
        tl.store(out_ptr + m[:, None] * (num_outputs // 2) + col[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        first_row = 0
        if PARTIAL:
            first_row = split * num_rows
        offset = (first_row + m)[:, None] * num_outputs + n[None, :]
        tl.store(out_ptr + offset, y.to(out_ptr.dtype.element_ty), mask=mask)
