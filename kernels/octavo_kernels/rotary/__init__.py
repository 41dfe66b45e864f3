"""Rotary embedding, optional query/key norm, and the write of keys and values into the paged cache."""

from __future__ import annotations

import torch

from octavo_kernels.launch import next_power_of_two, require_power_of_two, runs_triton
from octavo_kernels.paged_kv import Rotary
from octavo_kernels.rotary.reference import rotary_kv_write_reference, rotary_table

__all__ = ["rotary_kv_write", "rotary_kv_write_reference", "rotary_table"]


def rotary_kv_write(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    slot_mapping: torch.Tensor,
    rotary: Rotary,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
) -> None:
    """Rotate the queries of ``qkv`` in place and write rotated keys, and values, to the slots of the paged cache.

    qkv: [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]; positions: int32 [num_tokens];
    slot_mapping: int32 [num_tokens], block * block_size + offset, negative for a token without a slot;
    key_cache, value_cache: [num_blocks, num_kv_heads, block_size, head_dim].
    """
    if not runs_triton(qkv):
        rotary_kv_write_reference(qkv, positions, slot_mapping, rotary, key_cache, value_cache)
        return
    from octavo_kernels.rotary.kernel import rotary_kv_write_kernel

    _, num_kv_heads, block_size, head_dim = key_cache.shape
    num_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
    require_power_of_two("head_dim", head_dim)
    rotary_kv_write_kernel[(qkv.shape[0],)](
        qkv,
        positions,
        slot_mapping,
        rotary.cos,
        rotary.sin,
        key_cache,
        value_cache,
        rotary.cos if rotary.query_norm is None else rotary.query_norm,
        rotary.cos if rotary.key_norm is None else rotary.key_norm,
        rotary.eps,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        PADDED_HEADS=next_power_of_two(num_heads),
        PADDED_KV_HEADS=next_power_of_two(num_kv_heads),
        HEAD_DIM=head_dim,
        BLOCK_SIZE=block_size,
        QK_NORM=rotary.query_norm is not None,
        num_warps=8 if num_heads * head_dim >= 2048 else 4,
    )
