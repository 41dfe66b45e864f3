"""The persistent state of running sequences: one row each, kept in arrays so that a step needs no loop over rows."""

import secrets
from dataclasses import dataclass

import numpy as np

from octavo_engine.attention.interface import BatchLayout, IntArray
from octavo_engine.core.batch import Batch, NewRow
from octavo_engine.runner.random_stream import stream_key
from octavo_engine.runner.sampler import SamplingRows


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One pass as arrays. `sampled` indexes the tokens whose logits are wanted, `sampled_rows` their rows."""

    token_ids: IntArray
    positions: IntArray
    layout: BatchLayout
    sampled: IntArray
    sampled_rows: IntArray
    sampled_positions: IntArray


class RowTable:
    def __init__(self, num_rows: int, max_model_len: int, block_size: int) -> None:
        self._block_size = block_size
        self._tokens = np.zeros((num_rows, max_model_len + 1), dtype=np.int32)
        self._blocks = np.zeros((num_rows, -(-max_model_len // block_size)), dtype=np.int32)
        self._num_blocks = np.zeros(num_rows, dtype=np.int64)
        self._num_prompt_tokens = np.zeros(num_rows, dtype=np.int64)
        self._temperature = np.zeros(num_rows, dtype=np.float32)
        self._top_p = np.ones(num_rows, dtype=np.float32)
        self._top_k = np.zeros(num_rows, dtype=np.int64)
        self._stream_key = np.zeros(num_rows, dtype=np.uint64)

    def update(self, batch: Batch) -> None:
        """Takes in the rows and blocks that are new in `batch`."""
        for new in batch.new_rows:
            self._fill(new)
        for row, block_ids in batch.new_block_ids:
            self._append_blocks(row, block_ids)

    def inputs(self, batch: Batch) -> StepInputs:
        rows, query_lens, computed = (
            np.array(values, dtype=np.int64) for values in (batch.rows, batch.num_new_tokens, batch.num_computed)
        )
        ends = np.cumsum(query_lens)
        positions = np.arange(batch.num_tokens) + np.repeat(computed - (ends - query_lens), query_lens)
        token_rows = np.repeat(rows, query_lens)
        block_ids = self._blocks[token_rows, positions // self._block_size].astype(np.int64)
        context_lens = computed + query_lens
        is_sampling = np.array(batch.is_sampling, dtype=bool)
        return StepInputs(
            token_ids=self._tokens[token_rows, positions].astype(np.int64),
            positions=positions,
            layout=BatchLayout(
                query_lens=query_lens,
                context_lens=context_lens,
                block_tables=self._block_tables(rows, context_lens),
                slots=block_ids * self._block_size + positions % self._block_size,
            ),
            sampled=ends[is_sampling] - 1,
            sampled_rows=rows[is_sampling],
            sampled_positions=context_lens[is_sampling],
        )

    def sampling(self, inputs: StepInputs) -> SamplingRows:
        rows = inputs.sampled_rows
        return SamplingRows(
            temperature=self._temperature[rows],
            top_p=self._top_p[rows],
            top_k=self._top_k[rows],
            stream_key=self._stream_key[rows],
            num_draws=inputs.sampled_positions - self._num_prompt_tokens[rows],
        )

    def append(self, inputs: StepInputs, token_ids: IntArray) -> None:
        """Adds sampled tokens to their rows; negative ones are failures and are left out."""
        is_token = token_ids >= 0
        self._tokens[inputs.sampled_rows[is_token], inputs.sampled_positions[is_token]] = token_ids[is_token]

    def _fill(self, new: NewRow) -> None:
        row, params = new.row, new.params
        self._tokens[row, : len(new.token_ids)] = new.token_ids
        self._num_blocks[row] = 0
        self._append_blocks(row, new.block_ids)
        self._num_prompt_tokens[row] = new.num_prompt_tokens
        self._temperature[row] = params.temperature
        self._top_p[row] = params.top_p
        self._top_k[row] = params.top_k
        self._stream_key[row] = stream_key(secrets.randbits(64) if params.seed is None else params.seed)

    def _append_blocks(self, row: int, block_ids: list[int]) -> None:
        start = self._num_blocks[row]
        self._blocks[row, start : start + len(block_ids)] = block_ids
        self._num_blocks[row] = start + len(block_ids)

    def _block_tables(self, rows: IntArray, context_lens: IntArray) -> IntArray:
        """Padded with each row's own last block, so that not even a masked position reads another row's values."""
        num_blocks = -(-context_lens // self._block_size)
        columns = np.minimum(np.arange(num_blocks.max()), num_blocks[:, None] - 1)
        return self._blocks[rows[:, None], columns].astype(np.int64)
