"""The host's picture of the rows that run on a GPU: block tables, known tokens and sampling parameters, as arrays."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from octavo_engine.core.batch import Batch, NewRow

Int32Array = NDArray[np.int32]
SAMPLING_FIELDS = ("temperature", "top_k", "top_p", "min_p", "seeds")


class CudaRowTable:
    """A row's tokens up to `num_known_tokens` are known to the host; later ones were sampled and live on the device."""

    def __init__(self, num_rows: int, max_model_len: int, block_size: int) -> None:
        self.block_size = block_size
        self.tokens = np.zeros((num_rows, max_model_len + 1), dtype=np.int32)
        self.blocks = np.zeros((num_rows, -(-max_model_len // block_size) + 1), dtype=np.int32)
        self.num_blocks = np.zeros(num_rows, dtype=np.int32)
        self.num_known_tokens = np.zeros(num_rows, dtype=np.int32)
        self.is_greedy = np.ones(num_rows, dtype=bool)
        self.temperature = np.zeros(num_rows, dtype=np.float32)
        self.top_k = np.zeros(num_rows, dtype=np.int32)
        self.top_p = np.ones(num_rows, dtype=np.float32)
        self.min_p = np.zeros(num_rows, dtype=np.float32)
        self.seeds = np.zeros(num_rows, dtype=np.int32)

    def update(self, batch: Batch) -> None:
        """Takes in the rows and blocks that are new in `batch`."""
        for new in batch.new_rows:
            self._fill(new)
        for row, block_ids in batch.new_block_ids:
            self._append_blocks(row, block_ids)

    def sampling(self, rows: Int32Array) -> Int32Array:
        """Bits of `SAMPLING_FIELDS` of these rows: (5, num_rows)."""
        return np.stack([getattr(self, name)[rows].view(np.int32) for name in SAMPLING_FIELDS])

    def _fill(self, new: NewRow) -> None:
        row, params = new.row, new.params
        self.tokens[row, : len(new.token_ids)] = new.token_ids
        self.num_known_tokens[row] = len(new.token_ids)
        self.num_blocks[row] = 0
        self._append_blocks(row, new.block_ids)
        self.is_greedy[row] = params.is_greedy
        self.temperature[row] = params.temperature
        self.top_k[row] = params.top_k
        self.top_p[row] = params.top_p
        seed = secrets.randbits(31) if params.seed is None else params.seed
        self.seeds[row] = seed & 0x7FFFFFFF

    def _append_blocks(self, row: int, block_ids: list[int]) -> None:
        start = self.num_blocks[row]
        self.blocks[row, start : start + len(block_ids)] = block_ids
        self.num_blocks[row] = start + len(block_ids)
