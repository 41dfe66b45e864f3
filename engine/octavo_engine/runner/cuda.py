"""The model runner for NVIDIA GPUs: decode steps replay CUDA graphs, steps with prompts launch kernel by kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from octavo_engine.core.batch import Batch, NewRow, StepResult
from octavo_engine.runner.cuda_decode import DecodeGraphs, KvCaches
from octavo_engine.runner.cuda_mixed import MixedSteps, mixed_inputs
from octavo_engine.runner.cuda_model import CudaModel, LinearPlan
from octavo_engine.runner.cuda_staging import Staging, pinned
from octavo_engine.runner.cuda_table import CudaRowTable
from octavo_engine.sampling_params import SamplingParams
from octavo_kernels.copy_blocks import copy_blocks


@dataclass(frozen=True, slots=True)
class CudaStep:
    """Tokens on their way to the host: valid once `is_done` has happened."""

    rows: list[int]
    tokens: Tensor
    is_done: torch.cuda.Event | None

    def result(self) -> StepResult:
        if self.is_done:
            self.is_done.synchronize()
        token_ids = self.tokens.numpy()[self.rows].tolist() if self.rows else []
        return StepResult([None if token_id < 0 else token_id for token_id in token_ids])


class CudaRunner:
    """Owns the KV caches, the rows' last tokens and the two kinds of steps. Sampled tokens stay on the device as the
    next step's input, so a step can be submitted before the one before it has finished."""

    max_inflight_steps = 2

    def __init__(
        self,
        model: CudaModel,
        caches: KvCaches,
        table: CudaRowTable,
        linear_plans: dict[int, LinearPlan],
        max_model_len: int,
    ) -> None:
        self.num_blocks = caches[0][0].shape[0]
        self.max_model_len = max_model_len
        self._caches, self._table = caches, table
        self._device = model.weights.device
        num_rows = len(table.num_blocks)
        self._row_tokens = torch.zeros(num_rows + 1, dtype=torch.int32, device=self._device)
        self._decode = DecodeGraphs(model, caches, self._row_tokens, table, linear_plans)
        self._mixed = MixedSteps(model, caches, self._row_tokens, table)
        num_buffers = self.max_inflight_steps + 1
        # Room for either kind of step at its largest: block tables, tokens, and the rest.
        num_ints = 2 * table.blocks.size + 4 * len(model.hidden) + 64 * (num_rows + 64)
        self._staging = Staging(num_ints, 2 * num_buffers)
        self._host_tokens = [pinned(num_rows + 1) for _ in range(num_buffers)]
        self._num_steps = 0

    @torch.no_grad()
    def warm_up(self) -> None:
        """Records the decode graphs and runs steps of every kind once, which compiles all kernels."""
        self._decode.capture()
        most_tokens = self._mixed.max_num_tokens - 2
        limit = min(self.max_model_len - 2, (self.num_blocks - 4) // 4 * self._table.block_size, most_tokens, 200)
        for num_tokens in sorted({min(size, limit) for size in (10, 40, limit)}):
            self._run_once(num_tokens)
        self._decode.forget()
        torch.cuda.synchronize()

    def _run_once(self, num_tokens: int) -> None:
        """Prompts of one to three rows in turn, each beside the decodes of the rows before it."""
        num_rows = min(3, len(self._table.num_blocks))
        num_blocks = num_tokens // self._table.block_size + 1
        for last in range(num_rows):
            blocks = list(range(last * num_blocks, (last + 1) * num_blocks))
            new = NewRow(last, [0] * num_tokens, blocks, SamplingParams(temperature=last % 2), num_tokens)
            rows, lens = list(range(last + 1)), [1] * last + [num_tokens]
            batch = Batch(rows, lens, [num_tokens] * last + [0], [True] * (last + 1), new_rows=[new])
            self.submit(batch).result()

    @torch.no_grad()
    def submit(self, batch: Batch) -> CudaStep:
        self._table.update(batch)
        self._copy_blocks(batch.block_copies)
        if self._is_steady(batch):
            self._decode.append_blocks(batch.new_block_ids, self._staging)
            self._decode.run()
        elif self._is_decode(batch):
            self._decode.load(batch.rows, np.array(batch.num_computed, dtype=np.int32), self._staging)
            self._decode.run()
        elif batch.rows:
            self._decode.forget()
            self._mixed.run(mixed_inputs(batch, self._table), self._staging)
        return self._fetch([row for row, samples in zip(batch.rows, batch.is_sampling, strict=True) if samples])

    def _is_steady(self, batch: Batch) -> bool:
        return bool(batch.rows) and not batch.new_rows and self._decode.is_steady(batch.rows)

    def _is_decode(self, batch: Batch) -> bool:
        """Every row adds a token after one that was sampled on the device."""
        if not batch.rows or max(batch.num_new_tokens) > 1 or not all(batch.is_sampling):
            return False
        return bool((np.array(batch.num_computed) >= self._table.num_known_tokens[batch.rows]).all())

    def _copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        if not pairs:
            return
        sources, targets = torch.tensor(pairs, dtype=torch.int32, device=self._device).unbind(1)
        for caches in self._caches:
            for cache in caches:
                copy_blocks(cache, sources.contiguous(), targets.contiguous())

    def _fetch(self, rows: list[int]) -> CudaStep:
        tokens = self._host_tokens[self._num_steps % len(self._host_tokens)]
        self._num_steps += 1
        tokens.copy_(self._row_tokens, non_blocking=True)
        return CudaStep(rows, tokens, torch.cuda.current_stream().record_event() if tokens.is_pinned() else None)
