import triton
import triton.language as tl


@triton.jit
def load_pairs(ptr, head, head_mask, dim, HEAD_DIM: tl.constexpr):
    """Heads [H, D] and the same with the two halves swapped, in fp32."""
    partner = (dim + HEAD_DIM // 2) % HEAD_DIM
    x = tl.load(ptr + head[:, None] * HEAD_DIM + dim[None, :], mask=head_mask[:, None], other=0.0)
    y = tl.load(ptr + head[:, None] * HEAD_DIM + partner[None, :], mask=head_mask[:, None], other=0.0)
    return x.to(tl.float32), y.to(tl.float32)


@triton.jit
def norm_pairs(x, y, weight_ptr, dim, eps, HEAD_DIM: tl.constexpr):
    """RMSNorm over each head, applied to the heads and to their half-swapped copy."""
    partner = (dim + HEAD_DIM // 2) % HEAD_DIM
    scale = tl.rsqrt(tl.sum(x * x, 1) / HEAD_DIM + eps)[:, None]
    x = x * scale * tl.load(weight_ptr + dim).to(tl.float32)[None, :]
    y = y * scale * tl.load(weight_ptr + partner).to(tl.float32)[None, :]
    return x, y


@triton.jit
def load_rotation(cos_ptr, sin_ptr, position, dim, HEAD_DIM: tl.constexpr):
    """Cosine and signed sine of one position, so that rotated = x * cos + half_swapped(x) * sin."""
    angle = position * (HEAD_DIM // 2) + dim % (HEAD_DIM // 2)
    sign = tl.where(dim < HEAD_DIM // 2, -1.0, 1.0)
    return tl.load(cos_ptr + angle), tl.load(sin_ptr + angle) * sign


@triton.jit
def rotary_kv_write_kernel(
    qkv_ptr,
    positions_ptr,
    slots_ptr,
    cos_ptr,
    sin_ptr,
    key_cache_ptr,
    value_cache_ptr,
    query_norm_ptr,
    key_norm_ptr,
    eps,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    PADDED_HEADS: tl.constexpr,
    PADDED_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    QK_NORM: tl.constexpr,
):
    """One token a program."""
    token = tl.program_id(0).to(tl.int64)
    dim = tl.arange(0, HEAD_DIM)
    head = tl.arange(0, PADDED_HEADS)
    kv_head = tl.arange(0, PADDED_KV_HEADS)
    head_mask = head < NUM_HEADS
    kv_mask = kv_head < NUM_KV_HEADS
    cos, sin = load_rotation(cos_ptr, sin_ptr, tl.load(positions_ptr + token), dim, HEAD_DIM)
    row_ptr = qkv_ptr + token * ((NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM)
    query, query_swapped = load_pairs(row_ptr, head, head_mask, dim, HEAD_DIM)
    key, key_swapped = load_pairs(row_ptr + NUM_HEADS * HEAD_DIM, kv_head, kv_mask, dim, HEAD_DIM)
    value_ptr = row_ptr + (NUM_HEADS + NUM_KV_HEADS) * HEAD_DIM
    value = tl.load(value_ptr + kv_head[:, None] * HEAD_DIM + dim[None, :], mask=kv_mask[:, None], other=0.0)
    if QK_NORM:
        query, query_swapped = norm_pairs(query, query_swapped, query_norm_ptr, dim, eps, HEAD_DIM)
        key, key_swapped = norm_pairs(key, key_swapped, key_norm_ptr, dim, eps, HEAD_DIM)
    query = query * cos[None, :] + query_swapped * sin[None, :]
    key = key * cos[None, :] + key_swapped * sin[None, :]
    # Every thread has read both halves before any of them is overwritten.
    tl.debug_barrier()
    tl.store(
        row_ptr + head[:, None] * HEAD_DIM + dim[None, :], query.to(qkv_ptr.dtype.element_ty), mask=head_mask[:, None]
    )
    slot = tl.load(slots_ptr + token).to(tl.int64)
    write = (kv_head < tl.where(slot >= 0, NUM_KV_HEADS, 0))[:, None]
    block_offset = slot // BLOCK_SIZE * (NUM_KV_HEADS * BLOCK_SIZE * HEAD_DIM)
    cache_offset = block_offset + (kv_head[:, None] * BLOCK_SIZE + slot % BLOCK_SIZE) * HEAD_DIM + dim[None, :]
    tl.store(key_cache_ptr + cache_offset, key.to(key_cache_ptr.dtype.element_ty), mask=write)
    tl.store(value_cache_ptr + cache_offset, value.to(value_cache_ptr.dtype.element_ty), mask=write)
