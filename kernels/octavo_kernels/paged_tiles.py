"""Device functions that the attention kernels share: tiles of the paged cache and the online softmax over them."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def tile_offset(
    table_ptr,
    token,
    mask,
    kv_head,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Offsets [T, HEAD_DIM] in the cache of the tokens [T] of one sequence."""
    if MASKED:
        block = tl.load(table_ptr + token // BLOCK_SIZE, mask=mask, other=0).to(tl.int64)
    else:
        block = tl.load(table_ptr + token // BLOCK_SIZE).to(tl.int64)
    head_size: tl.constexpr = BLOCK_SIZE * HEAD_DIM
    line = block * (NUM_KV_HEADS * head_size) + kv_head * head_size + (token % BLOCK_SIZE) * HEAD_DIM
    return line[:, None] + tl.arange(0, HEAD_DIM)[None, :]


@triton.jit
def load_tile(cache_ptr, offset, mask, MASKED: tl.constexpr):
    """Keys or values [T, HEAD_DIM]; zero where masked, so that 0 x garbage cannot become NaN."""
    return tl.load(cache_ptr + offset, mask=mask[:, None], other=0.0) if MASKED else tl.load(cache_ptr + offset)


@triton.jit
def fold(score, value, visible, peak, total, acc, MASKED: tl.constexpr):
    """Fold one tile into the running softmax state (Milakov and Gimelshein, 2018).

    score: [M, T], in log2 units; value: [T, D]; visible: [M or 1, T], read when MASKED; peak, total: [M], running
    maximum and sum of exponentials; acc: [M, D], unnormalized output.
    """
    if MASKED:
        score = tl.where(visible, score, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(score, 1))
    base = new_peak
    if MASKED:
        # A query that has seen no token yet keeps an empty state: exp2(-inf - 0) is 0, exp2(-inf + inf) is not.
        base = tl.where(new_peak == float("-inf"), 0.0, new_peak)
    weight = tl.exp2(score - base[:, None])
    decay = tl.exp2(peak - base)
    total = total * decay + tl.sum(weight, 1)
    acc = tl.dot(weight.to(value.dtype), value, acc * decay[:, None])
    return new_peak, total, acc


@triton.jit
def attend_cached(
    query,
    key_cache_ptr,
    value_cache_ptr,
    table_ptr,
    token,
    mask,
    visible,
    kv_head,
    peak,
    total,
    acc,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Attend from queries [M, HEAD_DIM], scaled by log2(e) / sqrt(HEAD_DIM), to the cached tokens [T] of a sequence."""
    offset = tile_offset(table_ptr, token, mask, kv_head, NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, MASKED)
    key = load_tile(key_cache_ptr, offset, mask, MASKED).to(query.dtype)
    score = tl.dot(query, key.T)
    value = load_tile(value_cache_ptr, offset, mask, MASKED).to(query.dtype)
    return fold(score, value, visible, peak, total, acc, MASKED)


@triton.jit
def merge(peak, total, acc, other_peak, other_total, other_acc):
    """Combine two softmax states over disjoint tokens by their log-sum-exp; at most one of them may be empty."""
    new_peak = tl.maximum(peak, other_peak)
    decay = tl.exp2(peak - new_peak)
    other_decay = tl.exp2(other_peak - new_peak)
    total = total * decay + other_total * other_decay
    acc = acc * decay[:, None] + other_acc * other_decay[:, None]
    return new_peak, total, acc
