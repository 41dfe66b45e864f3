from __future__ import annotations

import torch

from octavo_kernels.paged_kv import Rotary


def rotary_table(inv_freq: torch.Tensor, num_positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """fp32 tables [num_positions, head_dim / 2] of cosine and sine, one row a position."""
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32, device=inv_freq.device), inv_freq.float())
    return angles.cos().contiguous(), angles.sin().contiguous()


def head_norm(heads: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + eps) * weight.float()


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """heads: [num_tokens, num_heads, head_dim]; cos, sin: [num_tokens, head_dim / 2]. Half-split pairing (GPT-NeoX)."""
    first, second = heads.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rotary_kv_write_reference(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    slot_mapping: torch.Tensor,
    rotary: Rotary,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
) -> None:
    _, num_kv_heads, block_size, head_dim = key_cache.shape
    heads = qkv.view(qkv.shape[0], -1, head_dim)
    num_heads = heads.shape[1] - 2 * num_kv_heads
    query, key, value = heads.float().split((num_heads, num_kv_heads, num_kv_heads), dim=1)
    if rotary.query_norm is not None and rotary.key_norm is not None:
        query, key = head_norm(query, rotary.query_norm, rotary.eps), head_norm(key, rotary.key_norm, rotary.eps)
    cos, sin = rotary.cos[positions.long()], rotary.sin[positions.long()]
    heads[:, :num_heads] = rotate(query, cos, sin).to(qkv.dtype)
    key = rotate(key, cos, sin)
    has_slot = slot_mapping >= 0
    slots = slot_mapping[has_slot].long()
    block, offset = slots // block_size, slots % block_size
    key_cache[block, :, offset] = key[has_slot].to(key_cache.dtype)
    value_cache[block, :, offset] = value[has_slot].to(value_cache.dtype)
