import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from octavo_kernels.paged_tiles import LOG2_E, attend_cached


@triton.jit(do_not_specialize=["num_rows", "table_stride"])
def prefix_attention_kernel(
    qkv_ptr,
    key_cache_ptr,
    value_cache_ptr,
    block_tables_ptr,
    lengths_ptr,
    tile_rows_ptr,
    tile_lens_ptr,
    cos_ptr,
    sin_ptr,
    query_norm_ptr,
    out_ptr,
    stats_ptr,
    eps,
    scale,
    table_stride,
    num_rows,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    PADDED_GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    STAGES: tl.constexpr,
    QK_NORM: tl.constexpr,
    PDL: tl.constexpr,
):
    """One KV head of one tile of rows over one split of the shared tokens a program: grid (tiles, KV heads, splits)."""
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    length = tl.load(tile_lens_ptr + tile)
    if length == 0:
        return
    query_index = tl.arange(0, ROWS * PADDED_GROUP)
    member = query_index % PADDED_GROUP
    row = tl.load(tile_rows_ptr + tile * ROWS + query_index // PADDED_GROUP)
    mask = (row >= 0) & (member < GROUP)
    head = kv_head * GROUP + member
    dim = tl.arange(0, HEAD_DIM)
    partner = (dim + HEAD_DIM // 2) % HEAD_DIM

    position = tl.load(lengths_ptr + row, mask=mask, other=0)
    angle = position[:, None] * (HEAD_DIM // 2) + (dim % (HEAD_DIM // 2))[None, :]
    cos = tl.load(cos_ptr + angle)
    sin = tl.load(sin_ptr + angle) * tl.where(dim < HEAD_DIM // 2, -1.0, 1.0)[None, :]
    head_ptr = (
        qkv_ptr + row[:, None].to(tl.int64) * ((NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM) + head[:, None] * HEAD_DIM
    )
    query = tl.load(head_ptr + dim[None, :], mask=mask[:, None], other=0.0).to(tl.float32)
    swapped = tl.load(head_ptr + partner[None, :], mask=mask[:, None], other=0.0).to(tl.float32)
    if QK_NORM:
        norm = tl.rsqrt(tl.sum(query * query, 1) / HEAD_DIM + eps)[:, None]
        query = query * norm * tl.load(query_norm_ptr + dim).to(tl.float32)[None, :]
        swapped = swapped * norm * tl.load(query_norm_ptr + partner).to(tl.float32)[None, :]
    query = ((query * cos + swapped * sin) * (scale * LOG2_E)).to(qkv_ptr.dtype.element_ty)

    # Tiles of tokens are dealt to the splits in turn; a split beyond them leaves an empty state.
    per_split = tl.cdiv(tl.cdiv(length, TILE), tl.num_programs(2)) * TILE
    first = split * per_split
    end = tl.minimum(first + per_split, length)
    table_ptr = block_tables_ptr + tl.load(tile_rows_ptr + tile * ROWS).to(tl.int64) * table_stride
    peak = tl.zeros([ROWS * PADDED_GROUP], tl.float32) + float("-inf")
    total = tl.zeros([ROWS * PADDED_GROUP], tl.float32)
    acc = tl.zeros([ROWS * PADDED_GROUP, HEAD_DIM], tl.float32)
    for at in tl.range(first, end, TILE, num_stages=STAGES):
        token = at + tl.arange(0, TILE)
        is_shared = token < end
        peak, total, acc = attend_cached(
            query,
            key_cache_ptr,
            value_cache_ptr,
            table_ptr,
            token,
            is_shared,
            is_shared[None, :],
            kv_head,
            peak,
            total,
            acc,
            NUM_KV_HEADS,
            HEAD_DIM,
            BLOCK_SIZE,
            True,
        )

    line = (split * num_rows + row) * NUM_HEADS + head
    tl.store(stats_ptr + line * 2, peak, mask=mask)
    tl.store(stats_ptr + line * 2 + 1, total, mask=mask)
    tl.store(out_ptr + line[:, None] * HEAD_DIM + dim[None, :], acc, mask=mask[:, None])
