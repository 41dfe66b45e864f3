from __future__ import annotations

import math

import torch

from octavo_kernels.paged_kv import PrefixState, Rotary, gather_cache
from octavo_kernels.rotary.reference import head_norm, rotate


def prefix_attention_reference(
    qkv: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    tile_rows: torch.Tensor,
    tile_lens: torch.Tensor,
    rotary: Rotary,
    scale: float,
    state: PrefixState,
) -> None:
    """Puts the whole state into the first split and leaves the others empty."""
    _, num_kv_heads, _, head_dim = key_cache.shape
    query = qkv.view(qkv.shape[0], -1, head_dim)[:, : -2 * num_kv_heads].float()
    if rotary.query_norm is not None:
        query = head_norm(query, rotary.query_norm, rotary.eps)
    at = lengths.clamp(min=0).long()
    query = rotate(query, rotary.cos[at], rotary.sin[at])
    for rows, length in zip(tile_rows.tolist(), tile_lens.tolist(), strict=True):
        for row in (row for row in rows if row >= 0 and length > 0):
            keys = gather_cache(key_cache, block_tables[rows[0]], length)
            values = gather_cache(value_cache, block_tables[rows[0]], length)
            scores = query[row].view(num_kv_heads, -1, head_dim) @ keys.transpose(1, 2) * (scale * math.log2(math.e))
            peak = scores.amax(-1)
            weights = torch.exp2(scores - peak[..., None])
            state.out[0, row] = (weights @ values).view(-1, head_dim)
            state.stats[0, row] = torch.stack([peak, weights.sum(-1)], -1).view(-1, 2)
            state.out[1:, row] = 0
            state.stats[1:, row, :, 0] = -torch.inf
            state.stats[1:, row, :, 1] = 0
