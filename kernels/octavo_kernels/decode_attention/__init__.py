"""Paged attention of one new token per sequence, with rotary embedding and KV write inside."""

from __future__ import annotations

from typing import NamedTuple

import torch

from octavo_kernels.decode_attention.plan import DecodePlan, advance_plan
from octavo_kernels.decode_attention.reference import decode_attention_reference
from octavo_kernels.launch import launch_options, next_power_of_two, require_power_of_two, runs_triton
from octavo_kernels.paged_kv import PrefixState, Rotary

__all__ = ["DecodeConfig", "DecodePlan", "advance_plan", "decode_attention", "decode_attention_reference"]


class DecodeConfig(NamedTuple):
    """Tile of tokens a program holds at a time, its warps, and its pipeline depth (0: next tile kept in registers)."""

    tile: int
    num_stages: int
    num_warps: int

    @classmethod
    def for_batch(cls, num_rows: int) -> DecodeConfig:
        """Measured choice: one warp a program keeps most loads in flight, except for a single sequence."""
        return cls(64, 0, 4) if num_rows == 1 else cls(32, 3, 1)


def decode_attention(
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
    config: DecodeConfig | None = None,
    pdl: bool = False,
) -> torch.Tensor:
    """Attend from each row's new token to itself and its cached tokens, and write its key and value to the cache.

    qkv: [num_rows, (num_heads + 2 * num_kv_heads) * head_dim], before rotation;
    key_cache, value_cache: [num_blocks, num_kv_heads, block_size, head_dim];
    block_tables: int32 [num_rows, max_blocks]; lengths: int32 [num_rows], cached tokens before this one, which is also
    the new token's position; a negative length marks a row of padding, whose output is left as it was;
    plan: made for these lengths by `advance_plan`; prefix: states of the tokens before each row's ``plan.starts``;
    out: [num_rows, num_heads * head_dim].

    With ``pdl`` the plan, lengths, tables and cached tokens are read before the preceding kernel has finished, so only
    ``qkv`` and ``prefix`` may come from it.
    """
    if not runs_triton(qkv):
        return decode_attention_reference(
            qkv, key_cache, value_cache, block_tables, lengths, plan, rotary, scale, out, prefix=prefix
        )
    from octavo_kernels.decode_attention.kernel import decode_attention_kernel

    _, num_kv_heads, block_size, head_dim = key_cache.shape
    num_rows, num_heads = qkv.shape[0], qkv.shape[1] // head_dim - 2 * num_kv_heads
    require_power_of_two("head_dim", head_dim)
    group = num_heads // num_kv_heads
    tile, num_stages, num_warps = config or DecodeConfig.for_batch(num_rows)
    decode_attention_kernel[(num_kv_heads, plan.max_items)](
        qkv,
        key_cache,
        value_cache,
        block_tables,
        lengths,
        plan.starts,
        plan.chunks,
        plan.offsets,
        plan.item_rows,
        rotary.cos,
        rotary.sin,
        rotary.cos if rotary.query_norm is None else rotary.query_norm,
        rotary.cos if rotary.key_norm is None else rotary.key_norm,
        out,
        plan.partial_out,
        plan.partial_stats,
        plan.arrivals,
        plan.partial_out if prefix is None else prefix.out,
        plan.partial_stats if prefix is None else prefix.stats,
        rotary.eps,
        scale,
        block_tables.stride(0),
        num_rows,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        BLOCK_SIZE=block_size,
        GROUP=group,
        PADDED_GROUP=max(16, next_power_of_two(group)),
        COMBINED_GROUP=next_power_of_two(group),
        TILE=tile,
        STAGES=num_stages,
        QK_NORM=rotary.query_norm is not None,
        NUM_PREFIX_SPLITS=0 if prefix is None else prefix.out.shape[0],
        **launch_options(num_warps, pdl=pdl),
    )
    return out
