"""One sequence on its way through the engine."""

from array import array
from collections.abc import Iterable
from enum import Enum, auto

from octavo_engine.messages import AddRequest, FinishReason


class RequestState(Enum):
    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


class Request:
    """Tokens, progress and KV blocks of one sequence. Only the scheduler changes it.

    `num_computed_tokens` runs ahead of the device: it advances when a step is scheduled. `num_pending_tokens` were
    sampled (or will be) by steps in flight and are not in `token_ids` yet, an array that the garbage collector skips.
    """

    __slots__ = (
        "block_hashes",
        "block_ids",
        "max_num_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_inflight_steps",
        "num_pending_tokens",
        "num_prompt_tokens",
        "num_registered_blocks",
        "num_tabled_blocks",
        "params",
        "rank",
        "request_id",
        "row",
        "started_at",
        "state",
        "stop_token_ids",
        "token_ids",
    )

    def __init__(self, message: AddRequest, arrival: int, eos_token_ids: Iterable[int] = ()) -> None:
        params = message.params
        self.request_id = message.request_id
        self.params = params
        self.token_ids = array("i", message.prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.max_num_tokens = self.num_prompt_tokens + params.max_tokens
        self.stop_token_ids = frozenset(params.stop_token_ids) | frozenset(() if params.ignore_eos else eos_token_ids)
        self.rank = (message.priority, arrival)
        self.state = RequestState.WAITING
        self.row = -1
        self.block_ids: list[int] = []
        self.block_hashes: list[bytes] = []
        self.num_registered_blocks = 0
        self.num_tabled_blocks = 0
        self.num_cached_tokens: int | None = None
        self.started_at = 0.0
        self.num_computed_tokens = 0
        self.num_pending_tokens = 0
        self.num_inflight_steps = 0

    @property
    def priority(self) -> int:
        """Smaller is more urgent."""
        return self.rank[0]

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens that a step could compute now; 0 when the last token it may have is already on its way."""
        num_tokens = len(self.token_ids) + self.num_pending_tokens
        return num_tokens - self.num_computed_tokens if num_tokens < self.max_num_tokens else 0

    def append(self, token_id: int) -> FinishReason | None:
        """Add a sampled token and say whether it ends the sequence, and why."""
        self.token_ids.append(token_id)
        if token_id in self.stop_token_ids:
            return "stop"
        return "length" if len(self.token_ids) >= self.max_num_tokens else None


def rank_of(request: Request) -> tuple[int, int]:
    """Sort key: (priority, arrival), the most urgent first."""
    return request.rank
