"""Causal attention of chunks of new tokens over paged keys and values."""

from __future__ import annotations

import torch

from octavo_kernels.launch import require_power_of_two, runs_triton
from octavo_kernels.prefill_attention.reference import prefill_attention_reference

__all__ = ["prefill_attention", "prefill_attention_reference"]

_CONFIGS = {128: (128, 2, 8), 64: (64, 3, 4), 16: (64, 3, 4)}
"""Queries a program attends from: tokens in a tile, pipeline stages, warps."""


def prefill_attention(
    qkv: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    max_query_len: int,
    scale: float,
    out: torch.Tensor,
    *,
    window: int = 0,
) -> torch.Tensor:
    """Attend from every query to its sequence's cached tokens up to and including its own position.

    qkv: [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim], queries rotated, keys and values already in the cache
    (`rotary_kv_write`); query_starts: int32 [num_seqs + 1], the tokens of sequence i are ``query_starts[i] ..
    query_starts[i + 1]``; context_lens: int32 [num_seqs], tokens cached before this chunk; max_query_len: of any
    sequence; window: attend to this many last tokens only (0: to all); out: [num_tokens, num_heads * head_dim].
    """
    if not runs_triton(qkv):
        return prefill_attention_reference(
            qkv, key_cache, value_cache, block_tables, query_starts, context_lens, scale, out, window=window
        )
    from octavo_kernels.prefill_attention.kernel import prefill_attention_kernel

    _, num_kv_heads, block_size, head_dim = key_cache.shape
    num_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
    require_power_of_two("head_dim", head_dim)
    queries = min((size for size in _CONFIGS if size >= max_query_len), default=max(_CONFIGS))
    tile, num_stages, num_warps = _CONFIGS[queries]
    prefill_attention_kernel[(-(-max_query_len // queries), num_heads, context_lens.shape[0])](
        qkv,
        key_cache,
        value_cache,
        block_tables,
        query_starts,
        context_lens,
        out,
        scale,
        window,
        block_tables.stride(0),
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        BLOCK_SIZE=block_size,
        HAS_WINDOW=window > 0,
        QUERIES=queries,
        TILE=tile,
        STAGES=num_stages,
        num_warps=num_warps,
    )
    return out
