"""Attention of many rows to the leading tokens they share (the first half of cascade attention)."""

from __future__ import annotations

import torch

from octavo_kernels.launch import launch_options, next_power_of_two, require_power_of_two, runs_triton
from octavo_kernels.paged_kv import PrefixState, Rotary
from octavo_kernels.prefix_attention.reference import prefix_attention_reference

__all__ = ["prefix_attention", "prefix_attention_reference", "rows_per_tile"]

_QUERIES_PER_TILE = 64


def rows_per_tile(num_heads: int, num_kv_heads: int) -> int:
    """How many rows of one group a tile holds: its query heads of one KV head fill the matrix unit."""
    return max(1, _QUERIES_PER_TILE // next_power_of_two(num_heads // num_kv_heads))


def prefix_attention(
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
    *,
    pdl: bool = False,
) -> None:
    """For every tile, read the shared tokens once and attend to them from all of the tile's rows.

    tile_rows: int32 [num_tiles, rows_per_tile], rows whose block tables start with the same blocks, -1 for none;
    tile_lens: int32 [num_tiles], how many leading tokens they share, 0 for an unused tile.
    The other arguments are those of `decode_attention`, which merges ``state`` into each row's own attention.
    """
    if not runs_triton(qkv):
        prefix_attention_reference(
            qkv, key_cache, value_cache, block_tables, lengths, tile_rows, tile_lens, rotary, scale, state
        )
        return
    from octavo_kernels.prefix_attention.kernel import prefix_attention_kernel

    _, num_kv_heads, block_size, head_dim = key_cache.shape
    num_rows, num_heads = qkv.shape[0], qkv.shape[1] // head_dim - 2 * num_kv_heads
    require_power_of_two("head_dim", head_dim)
    prefix_attention_kernel[(tile_rows.shape[0], num_kv_heads, state.out.shape[0])](
        qkv,
        key_cache,
        value_cache,
        block_tables,
        lengths,
        tile_rows,
        tile_lens,
        rotary.cos,
        rotary.sin,
        rotary.cos if rotary.query_norm is None else rotary.query_norm,
        state.out,
        state.stats,
        rotary.eps,
        scale,
        block_tables.stride(0),
        num_rows,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        BLOCK_SIZE=block_size,
        GROUP=num_heads // num_kv_heads,
        PADDED_GROUP=next_power_of_two(num_heads // num_kv_heads),
        ROWS=tile_rows.shape[1],
        TILE=64,
        STAGES=3,
        QK_NORM=rotary.query_norm is not None,
        **launch_options(4, pdl=pdl),
    )
