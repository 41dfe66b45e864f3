"""What the scheduler tells the model runner about one step, and what it gets back. Plain data, no torch.

The runner keeps a persistent table with one row per running sequence: its tokens, its block table, its sampling
parameters and random generator. A batch carries only what changed, so steady decoding moves almost nothing.
"""

from dataclasses import dataclass, field
from typing import Protocol

from octavo_engine.sampling_params import SamplingParams


@dataclass(slots=True)
class NewRow:
    """A sequence that enters the table (first time, or resumed after preemption: then with its output so far).

    The generator of a resumed row continues its stream after `len(token_ids) - num_prompt_tokens` draws.
    """

    row: int
    token_ids: list[int]
    block_ids: list[int]
    params: SamplingParams
    num_prompt_tokens: int


@dataclass(slots=True)
class Batch:
    """One forward pass. Lists are parallel over the scheduled sequences, decodes first.

    Batches take effect in the order of submission, and in each layer all new KV is written before any is read: a row
    may share blocks that another row fills in the same pass. The runner may keep the lists; nobody changes them later.

    rows              row in the runner's table
    num_new_tokens    tokens to compute: 1 for a decode, more for a chunk of prefill
    num_computed      tokens of the row whose KV is already in its blocks; the new tokens follow these
    is_sampling       whether the new tokens reach the row's end, so that a next token is sampled
    new_rows          rows to fill before the pass
    new_block_ids     (row, block ids to append to its block table) before the pass
    block_copies      (source block, destination block) to copy before the pass
    """

    rows: list[int] = field(default_factory=list)
    num_new_tokens: list[int] = field(default_factory=list)
    num_computed: list[int] = field(default_factory=list)
    is_sampling: list[bool] = field(default_factory=list)
    new_rows: list[NewRow] = field(default_factory=list)
    new_block_ids: list[tuple[int, list[int]]] = field(default_factory=list)
    block_copies: list[tuple[int, int]] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return sum(self.num_new_tokens)


@dataclass(slots=True)
class StepResult:
    """Sampled tokens, one per True in `Batch.is_sampling`, in order. None where a row's logits were not finite."""

    token_ids: list[int | None]


class PendingStep(Protocol):
    """A step that was submitted to the device. `submit` and `result` raise OutOfDeviceMemory if it does not fit; then
    this step and those submitted after it are forgotten, and their rows are filled anew."""

    def result(self) -> StepResult: ...


class ModelRunner(Protocol):
    """Runs batches over paged KV. The sampled token is also appended to the row's tokens in the table by the runner
    itself, so that the next step can be submitted before the result of this one is read."""

    num_blocks: int
    max_model_len: int
    max_inflight_steps: int
    """Steps that may be submitted before the result of the first is read: 1 on a CPU, 2 on a GPU."""

    def submit(self, batch: Batch) -> PendingStep: ...
