from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from octavo_kernels.paged_kv import PrefixState, Rotary, gather_cache
from octavo_kernels.rotary.reference import rotary_kv_write_reference

if TYPE_CHECKING:
    from octavo_kernels.decode_attention.plan import DecodePlan


def advance_plan_reference(
    plan: DecodePlan, lengths: torch.Tensor, shared_lens: torch.Tensor, *, advance: bool, window: int
) -> None:
    """One item a row: a plain implementation has nothing to balance."""
    is_live = lengths >= 0
    lengths += (is_live & advance).int()
    first = (lengths + 1 - window).clamp(min=0) if window else torch.zeros_like(lengths)
    num_rows = lengths.shape[0]
    plan.starts[:num_rows] = torch.maximum(shared_lens, first)
    plan.offsets[1 : num_rows + 1] = is_live.int().cumsum(0)
    plan.chunks[:num_rows] = (lengths - plan.starts[:num_rows]).clamp(min=0)


def decode_attention_reference(
    qkv: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    plan: DecodePlan,
    rotary: Rotary,
    scale: float,
    out: torch.Tensor,
    *,
    prefix: PrefixState | None = None,
) -> torch.Tensor:
    """Attends to the whole context, so the prefix states, which only save work, are not needed."""
    _, num_kv_heads, block_size, head_dim = key_cache.shape
    heads = qkv.clone()
    live = [row for row, length in enumerate(lengths.tolist()) if length >= 0]
    at = lengths.clamp(min=0)
    block = block_tables.gather(1, (at // block_size).long()[:, None])[:, 0]
    slots = torch.where(lengths >= 0, block * block_size + at % block_size, -1)
    rotary_kv_write_reference(heads, at, slots, rotary, key_cache, value_cache)
    query = heads.view(qkv.shape[0], -1, head_dim)[:, : -2 * num_kv_heads].float()
    for row in live:
        start = 0 if prefix is not None else int(plan.starts[row])
        keys = gather_cache(key_cache, block_tables[row], int(lengths[row]) + 1)[:, start:]
        values = gather_cache(value_cache, block_tables[row], int(lengths[row]) + 1)[:, start:]
        grouped = query[row].view(num_kv_heads, -1, head_dim)
        weights = (grouped @ keys.transpose(1, 2) * scale).softmax(-1)
        out[row] = (weights @ values).reshape(-1).to(out.dtype)
    return out
