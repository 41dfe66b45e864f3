"""A step in the making, and how it becomes a batch."""

from dataclasses import dataclass, field

from octavo_engine.core.batch import Batch, NewRow
from octavo_engine.core.request import Request


@dataclass(slots=True, frozen=True)
class StepInFlight:
    """Who is in a submitted step, and for whom a token is sampled, in the order of the batch."""

    requests: list[Request]
    sampling: list[Request]


@dataclass(slots=True)
class Plan:
    """`chunks` maps each chosen request to its number of tokens, decodes first. Nobody is admitted any more once a
    request found no room or had to make room: then the plan is closed."""

    budget: int
    now: float
    chunks: dict[Request, int] = field(default_factory=dict)
    is_closed: bool = False

    def add(self, request: Request, num_tokens: int) -> None:
        self.chunks[request] = num_tokens
        self.budget -= num_tokens
        request.num_computed_tokens += num_tokens

    def remove(self, request: Request) -> None:
        self.budget += self.chunks.pop(request, 0)

    def launch(self) -> tuple[Batch, StepInFlight]:
        """The batch for the runner, and the record of it. From here on the chosen requests are in flight."""
        batch = Batch()
        step = StepInFlight([], [])
        for request, num_tokens in self.chunks.items():
            is_sampling = request.num_uncomputed_tokens == 0
            _describe(request, num_tokens, is_sampling, batch)
            request.num_inflight_steps += 1
            step.requests.append(request)
            if is_sampling:
                request.num_pending_tokens += 1
                step.sampling.append(request)
        return batch, step


def _describe(request: Request, num_tokens: int, is_sampling: bool, batch: Batch) -> None:
    """Add a request to the batch, with what the runner's table does not know of it yet."""
    batch.rows.append(request.row)
    batch.num_new_tokens.append(num_tokens)
    batch.num_computed.append(request.num_computed_tokens - num_tokens)
    batch.is_sampling.append(is_sampling)
    num_blocks = len(request.block_ids)
    if request.num_tabled_blocks == num_blocks:
        return
    if request.num_tabled_blocks == 0:
        batch.new_rows.append(_new_row(request))
    else:
        batch.new_block_ids.append((request.row, request.block_ids[request.num_tabled_blocks :]))
    request.num_tabled_blocks = num_blocks


def _new_row(request: Request) -> NewRow:
    return NewRow(
        row=request.row,
        token_ids=request.token_ids.tolist(),
        block_ids=request.block_ids.copy(),
        params=request.params,
        num_prompt_tokens=request.num_prompt_tokens,
    )
