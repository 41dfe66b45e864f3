"""The model runner for CPUs: one pass per submit, finished when it returns."""

from dataclasses import dataclass

import torch

from octavo_engine.attention.torch_backend import TorchAttention
from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import Batch, NewRow, StepResult
from octavo_engine.models.llama import Llama
from octavo_engine.runner.row_table import RowTable, StepInputs
from octavo_engine.runner.sampler import sample
from octavo_engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class FinishedStep:
    _result: StepResult

    def result(self) -> StepResult:
        return self._result


class TorchRunner:
    max_inflight_steps = 1

    def __init__(
        self, config: EngineConfig, model: Llama, attention: TorchAttention, num_blocks: int, max_model_len: int
    ) -> None:
        self.num_blocks = num_blocks
        self.max_model_len = max_model_len
        self._model = model
        self._attention = attention
        self._block_size = config.block_size
        self._table = RowTable(config.max_num_seqs, max_model_len, config.block_size)

    @torch.inference_mode()
    def submit(self, batch: Batch) -> FinishedStep:
        self._table.update(batch)
        if batch.block_copies:
            self._attention.copy_blocks(batch.block_copies)
        if not batch.rows:
            return FinishedStep(StepResult([]))
        inputs = self._table.inputs(batch)
        token_ids = self._sample(inputs, self._forward(inputs))
        return FinishedStep(StepResult([None if token < 0 else token for token in token_ids]))

    def warm_up(self) -> None:
        """Runs a prefill and a decode, so that the first request does not wait for kernels to be prepared."""
        num_tokens = min(64, self.num_blocks * self._block_size - 1, self.max_model_len - 1)
        blocks = list(range(-(-(num_tokens + 1) // self._block_size)))
        row = NewRow(0, [0] * num_tokens, blocks, SamplingParams(), num_prompt_tokens=num_tokens)
        self.submit(Batch([0], [num_tokens], [0], [True], new_rows=[row]))
        self.submit(Batch([0], [1], [num_tokens], [True]))

    def _forward(self, inputs: StepInputs) -> torch.Tensor:
        return self._model.forward(
            torch.from_numpy(inputs.token_ids),
            torch.from_numpy(inputs.positions),
            self._attention,
            self._attention.plan(inputs.layout),
        )

    def _sample(self, inputs: StepInputs, hidden: torch.Tensor) -> list[int]:
        if not inputs.sampled.size:
            return []
        logits = self._model.logits(hidden[torch.from_numpy(inputs.sampled)])
        token_ids = sample(logits, self._table.sampling(inputs))
        self._table.append(inputs, token_ids)
        return [int(token_id) for token_id in token_ids]
