"""Finds rows that share leading KV blocks, so that their attention reads the shared tokens once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octavo_engine.runner.cuda_table import Int32Array

MIN_SHARED_TOKENS = 256
MIN_SAVED_TOKENS = 32768
"""Tokens that must not be read again for the extra kernel to pay; measured on an H200."""


@dataclass(frozen=True, slots=True)
class PrefixTiles:
    """Arguments of `prefix_attention`: shared_lens (num_rows,), tile_rows (tiles, width), tile_lens (tiles,)."""

    shared_lens: Int32Array
    tile_rows: Int32Array
    tile_lens: Int32Array

    @property
    def is_empty(self) -> bool:
        return not self.tile_lens.any()


def max_tiles(num_rows: int, width: int) -> int:
    """Room for every row in full tiles, and a few groups' last tiles that are not full."""
    return -(-num_rows // width) + 8


def find_prefix_tiles(blocks: Int32Array, lengths: Int32Array, block_size: int, width: int) -> PrefixTiles:
    """Groups rows by their first block. blocks: (num_rows, max_blocks); lengths: cached tokens of each row."""
    num_rows = len(lengths)
    tiles = PrefixTiles(
        np.zeros(num_rows, dtype=np.int32),
        np.full((max_tiles(num_rows, width), width), -1, dtype=np.int32),
        np.zeros(max_tiles(num_rows, width), dtype=np.int32),
    )
    groups = [(group, _num_shared_blocks(blocks, lengths, block_size, group)) for group in _groups(blocks[:, 0])]
    groups = [(group, shared) for group, shared in groups if shared * block_size >= MIN_SHARED_TOKENS]
    if sum((len(group) - 1) * shared * block_size for group, shared in groups) < MIN_SAVED_TOKENS:
        return tiles
    groups.sort(key=lambda pair: -len(pair[0]) * pair[1])
    next_tile = 0
    for group, shared in groups:
        num_tiles = -(-len(group) // width)
        if next_tile + num_tiles > len(tiles.tile_lens):
            break
        tiles.shared_lens[group] = shared * block_size
        tiles.tile_lens[next_tile : next_tile + num_tiles] = shared * block_size
        tiles.tile_rows[next_tile : next_tile + num_tiles].reshape(-1)[: len(group)] = group
        next_tile += num_tiles
    return tiles


def _groups(first_blocks: Int32Array) -> list[Int32Array]:
    """Indices of rows with the same first block, where there are at least two."""
    order = np.argsort(first_blocks, kind="stable").astype(np.int32)
    cuts = np.flatnonzero(np.diff(first_blocks[order])) + 1
    return [group for group in np.split(order, cuts) if len(group) > 1]


def _num_shared_blocks(blocks: Int32Array, lengths: Int32Array, block_size: int, group: Int32Array) -> int:
    """Leading blocks that all of the group have in common, full and computed for each."""
    num_full = int(lengths[group].min()) // block_size
    is_same = (blocks[group, :num_full] == blocks[group[0], :num_full]).all(axis=0)
    return num_full if is_same.all() else int(is_same.argmin())
