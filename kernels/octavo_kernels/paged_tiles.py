"""Device functions that the attention kernels share: tiles of the paged cache and the online softmax over them."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def load_tile(
    key_cache_ptr,
    value_cache_ptr,
    table_ptr,
    first,
    end,
    kv_head,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Keys and values [TILE, HEAD_DIM] of a sequence's cached tokens from ``first``; MASKED: zero from ``end`` on."""
    token = first + tl.arange(0, TILE)
    dim = tl.arange(0, HEAD_DIM)
    mask = token < end
    if MASKED:
        block = tl.load(table_ptr + token // BLOCK_SIZE, mask=mask, other=0).to(tl.int64)
    else:
        block = tl.load(table_ptr + token // BLOCK_SIZE).to(tl.int64)
    line = (block * NUM_KV_HEADS + kv_head) * BLOCK_SIZE + token % BLOCK_SIZE
    offset = line[:, None] * HEAD_DIM + dim[None, :]
    if MASKED:
        key = tl.load(key_cache_ptr + offset, mask=mask[:, None], other=0.0)
        value = tl.load(value_cache_ptr + offset, mask=mask[:, None], other=0.0)
    else:
        key = tl.load(key_cache_ptr + offset)
        value = tl.load(value_cache_ptr + offset)
    return key, value


@triton.jit
def attend(query, key, value, visible, peak, total, acc, MASKED: tl.constexpr):
    """Fold one tile into the running softmax state (Milakov and Gimelshein, 2018). Scores are in log2 units.

    query: [M, D], already scaled by log2(e) / sqrt(D); key, value: [T, D]; visible: [M or 1, T], read when MASKED;
    peak, total: [M], running maximum and sum of exponentials; acc: [M, D], unnormalized output.
    """
    score = tl.dot(query, key.to(query.dtype).T)
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
    acc = tl.dot(weight.to(query.dtype), value.to(query.dtype), acc * decay[:, None])
    return new_peak, total, acc


@triton.jit
def merge(peak, total, acc, other_peak, other_total, other_acc):
    """Combine two softmax states over disjoint tokens by their log-sum-exp; at most one of them may be empty."""
    new_peak = tl.maximum(peak, other_peak)
    decay = tl.exp2(peak - new_peak)
    other_decay = tl.exp2(other_peak - new_peak)
    total = total * decay + other_total * other_decay
    acc = acc * decay[:, None] + other_acc * other_decay[:, None]
    return new_peak, total, acc
