"""Decides what each step computes. Pure policy over plain data: no torch, no clock, no I/O."""

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import Batch, NewRow, StepResult
from octavo_engine.core.block_pool import BlockPool
from octavo_engine.core.prefix_cache import PrefixCache
from octavo_engine.core.request import Request, RequestState
from octavo_engine.errors import InvalidRequest, QueueFull
from octavo_engine.messages import FinishReason, TokenEvent


def _rank(request: Request) -> tuple[int, int]:
    return request.rank


@dataclass(slots=True)
class _Plan:
    """A step in the making. `chunks` maps each chosen request to its number of tokens, decodes first. No request is
    admitted any more once one found no room or had to make room."""

    budget: int
    chunks: dict[Request, int] = field(default_factory=dict)
    is_closed: bool = False

    def add(self, request: Request, num_tokens: int) -> None:
        self.chunks[request] = num_tokens
        self.budget -= num_tokens
        request.num_computed_tokens += num_tokens

    def remove(self, request: Request) -> None:
        self.budget += self.chunks.pop(request, 0)


@dataclass(slots=True, frozen=True)
class _StepInFlight:
    requests: list[Request]
    sampling: list[Request]


@dataclass(slots=True)
class Counters:
    """Totals since the start; they never go backwards."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_hit_tokens: int = 0
    prefix_miss_tokens: int = 0


class Scheduler:
    """Continuous batching under a token budget.

    One notion covers everything: each step lets requests' computed tokens catch up with their tokens. Decodes come
    first, one token each; what remains of the budget goes to prefills, running and waiting ones alike in order of
    (priority, arrival). A request is admitted when blocks for all its tokens are there, so only decodes can run short;
    then the last request in that order is preempted, to be recomputed later.

    `schedule` may be called again before `commit` has seen the result of earlier steps. The runner executes steps in
    order; blocks and row of a request return only when no step in flight contains it.
    """

    def __init__(self, config: EngineConfig, num_blocks: int, max_model_len: int) -> None:
        self._config = config
        self._block_size = config.block_size
        self._max_model_len = min(max_model_len, num_blocks * config.block_size)
        self._pool = BlockPool(num_blocks)
        self._cache = PrefixCache(self._pool, config.block_size, config.enable_prefix_caching)
        self._free_rows = list(range(config.max_num_seqs - 1, -1, -1))
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._releasing: set[Request] = set()
        self._in_flight: deque[_StepInFlight] = deque()
        self.num_waiting_prompt_tokens = 0
        self.counters = Counters()

    @property
    def pool(self) -> BlockPool:
        return self._pool

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._running or self._in_flight)

    def add(self, request: Request) -> None:
        """Queue a request. InvalidRequest when it could never run, QueueFull when too much waits already."""
        self._check_fits(request)
        self._check_queue(request)
        self._enqueue(request)

    def abort(self, request: Request) -> None:
        """End a request in whatever state it is, without an event."""
        if request.state is not RequestState.FINISHED:
            self._finish(request)

    def schedule(self) -> Batch | None:
        """The next step, or None when nothing can be computed before a result is committed or a request arrives."""
        plan = _Plan(budget=self._config.max_num_batched_tokens)
        prefills = self._plan_decodes(plan)
        self._plan_prefills(plan, prefills)
        return self._launch(plan) if plan.chunks else None

    def commit(self, result: StepResult) -> list[TokenEvent]:
        """Take in the result of the oldest step in flight: append tokens, finish requests, free what nobody uses."""
        step = self._in_flight.popleft()
        for request in step.requests:
            request.num_inflight_steps -= 1
        accepted = [self._accept(*pair) for pair in zip(step.sampling, result.token_ids, strict=True)]
        if self._releasing:
            for request in [request for request in self._releasing if not request.num_inflight_steps]:
                self._release(request)
        return [event for event in accepted if event]

    def repair(self) -> bool:
        """When idle no block and no row has an owner. If that does not hold, start over with all free; says so."""
        if self._pool.is_unowned() and len(self._free_rows) == self._config.max_num_seqs:
            return False
        self._free_rows = list(range(self._config.max_num_seqs - 1, -1, -1))
        self._pool = BlockPool(self._pool.num_blocks)
        self._cache = PrefixCache(self._pool, self._block_size, self._config.enable_prefix_caching)
        return True

    def _check_fits(self, request: Request) -> None:
        if request.num_prompt_tokens == 0:
            raise InvalidRequest("the prompt is empty; send at least one token", field="prompt")
        if request.max_num_tokens > self._max_model_len:
            raise InvalidRequest(
                f"{request.num_prompt_tokens} prompt tokens + max_tokens {request.params.max_tokens} exceed the limit"
                f" of {self._max_model_len} tokens; shorten the prompt or lower max_tokens",
                field="max_tokens",
                code="context_length_exceeded",
            )

    def _check_queue(self, request: Request) -> None:
        config = self._config
        if len(self._waiting) >= config.max_num_waiting + len(self._free_rows):
            raise QueueFull(f"{len(self._waiting)} requests wait already (max_num_waiting); try again later")
        if self._waiting and self.num_waiting_prompt_tokens + request.num_prompt_tokens > config.max_waiting_tokens:
            raise QueueFull(
                f"{self.num_waiting_prompt_tokens} tokens wait already (max_waiting_tokens); try again later"
            )

    def _plan_decodes(self, plan: _Plan) -> deque[Request]:
        """Plan one token for each running request that lacks just one; return those that lack more."""
        prefills: deque[Request] = deque()
        for request in self._running.copy():
            num_tokens = request.num_uncomputed_tokens
            if num_tokens > 1:
                prefills.append(request)
            elif num_tokens and plan.budget and self._grow(request, plan):
                plan.add(request, 1)
        return prefills

    def _grow(self, request: Request, plan: _Plan) -> bool:
        """Make sure that the request has a slot for one more token, at the expense of the last in rank if need be."""
        if request.state is not RequestState.RUNNING:
            return False
        if request.num_computed_tokens < len(request.block_ids) * self._block_size:
            return True
        while not self._pool.num_available:
            plan.is_closed = True
            if self._releasing:
                return False
            victim = self._running[-1]
            self._preempt(victim, plan)
            if victim is request:
                return False
        request.block_ids += self._pool.allocate(1)
        return True

    def _plan_prefills(self, plan: _Plan, prefills: deque[Request]) -> None:
        """Spend what remains of the budget on prompts, running and waiting ones merged by rank."""
        while plan.budget:
            request = self._admit_before(prefills[0] if prefills else None, plan)
            if request is None:
                if not prefills:
                    return
                request = prefills.popleft()
            if request.state is RequestState.RUNNING and not self._plan_chunk(request, plan):
                return

    def _plan_chunk(self, request: Request, plan: _Plan) -> bool:
        """Plan the next part of a prompt. False when it has to wait for a step with more budget left."""
        num_uncomputed = request.num_uncomputed_tokens
        num_tokens = min(num_uncomputed, plan.budget, self._config.prefill_chunk_size or num_uncomputed)
        if num_tokens < num_uncomputed and not self._config.enable_chunked_prefill:
            return False
        plan.add(request, num_tokens)
        self._cache.register(request)
        return True

    def _admit_before(self, other: Request | None, plan: _Plan) -> Request | None:
        """Move the first waiting request into the running ones, if it ranks before `other` and there is room for it."""
        if not self._waiting or plan.is_closed or (other and other.rank < self._waiting[0].rank):
            return None
        request = self._waiting[0]
        block_ids = None if request.num_inflight_steps else self._find_room(request, plan)
        if block_ids is None:
            plan.is_closed = True
            return None
        self._start(request, block_ids)
        return request

    def _find_room(self, request: Request, plan: _Plan) -> list[int] | None:
        """The cached blocks that the request can begin with, if a row and enough blocks for the rest are free. Requests
        of lower priority make way; None while that is not enough or not done yet."""
        while True:
            hits = self._cache.match(request)
            if self._free_rows and self._can_allocate(request, hits):
                return hits
            victim = self._running[-1] if self._running else None
            if victim is None or victim.priority <= request.priority or self._releasing:
                return None
            self._preempt(victim, plan)

    def _can_allocate(self, request: Request, hits: list[int]) -> bool:
        """Whether all its tokens fit beside the hits, with a block to spare for each running request, so that
        the newcomer is not preempted at once."""
        num_idle_hits = sum(self._pool.num_owners(block_id) == 0 for block_id in hits)
        num_needed = self._num_blocks_for(request) - len(hits) + num_idle_hits
        return num_needed + len(self._running) <= self._pool.num_available

    def _num_blocks_for(self, request: Request) -> int:
        return -(-len(request.token_ids) // self._block_size)

    def _start(self, request: Request, hits: list[int]) -> None:
        self._dequeue(request)
        self._pool.share(hits)
        request.block_ids = hits + self._pool.allocate(self._num_blocks_for(request) - len(hits))
        request.num_registered_blocks = len(hits)
        request.num_computed_tokens = len(hits) * self._block_size
        request.row = self._free_rows.pop()
        request.state = RequestState.RUNNING
        insort(self._running, request, key=_rank)
        if request.num_cached_tokens is None:
            self._count_first_start(request)

    def _count_first_start(self, request: Request) -> None:
        request.num_cached_tokens = request.num_computed_tokens
        self.counters.prompt_tokens += request.num_prompt_tokens
        self.counters.prefix_hit_tokens += request.num_cached_tokens
        self.counters.prefix_miss_tokens += request.num_prompt_tokens - request.num_cached_tokens

    def _launch(self, plan: _Plan) -> Batch:
        """Turn the plan into what the runner needs to know, and record it as in flight."""
        batch = Batch()
        step = _StepInFlight([], [])
        for request, num_tokens in plan.chunks.items():
            is_sampling = request.num_uncomputed_tokens == 0
            self._describe(request, num_tokens, is_sampling, batch)
            request.num_inflight_steps += 1
            step.requests.append(request)
            if is_sampling:
                request.num_pending_tokens += 1
                step.sampling.append(request)
        self._in_flight.append(step)
        return batch

    def _describe(self, request: Request, num_tokens: int, is_sampling: bool, batch: Batch) -> None:
        batch.rows.append(request.row)
        batch.num_new_tokens.append(num_tokens)
        batch.num_computed.append(request.num_computed_tokens - num_tokens)
        batch.is_sampling.append(is_sampling)
        num_blocks = len(request.block_ids)
        if request.num_tabled_blocks == num_blocks:
            return
        if request.num_tabled_blocks == 0:
            batch.new_rows.append(self._new_row(request))
        else:
            batch.new_block_ids.append((request.row, request.block_ids[request.num_tabled_blocks :]))
        request.num_tabled_blocks = num_blocks

    def _new_row(self, request: Request) -> NewRow:
        return NewRow(
            row=request.row,
            token_ids=request.token_ids.copy(),
            block_ids=request.block_ids.copy(),
            params=request.params,
            num_prompt_tokens=request.num_prompt_tokens,
        )

    def _accept(self, request: Request, token_id: int | None) -> TokenEvent | None:
        """Add a sampled token, unless the request ended while the step was in flight."""
        request.num_pending_tokens -= 1
        if request.state is RequestState.FINISHED:
            return None
        if token_id is None:
            return self._fail(request)
        finish_reason = request.append(token_id)
        self.counters.generation_tokens += 1
        if request.state is RequestState.RUNNING:
            self._cache.register(request)
        if finish_reason:
            self._finish(request)
        return self._event(request, token_id, finish_reason)

    def _event(self, request: Request, token_id: int, finish_reason: FinishReason | None) -> TokenEvent:
        return TokenEvent(
            request_id=request.request_id,
            token_ids=[token_id],
            finish_reason=finish_reason,
            stop_token_id=token_id if finish_reason == "stop" else None,
            num_cached_tokens=request.num_cached_tokens or 0,
        )

    def _fail(self, request: Request) -> TokenEvent:
        """End a request whose logits were not finite, and let no later one find its blocks."""
        self._cache.forget(request.block_ids)
        self._finish(request)
        error = "the model's logits were not finite (NaN or infinity)"
        return TokenEvent(request.request_id, [], "error", error=error, error_code="internal")

    def _finish(self, request: Request) -> None:
        if request.state is RequestState.WAITING:
            self._dequeue(request)
        else:
            self._running.remove(request)
            self._leave_row(request)
        request.state = RequestState.FINISHED

    def _preempt(self, request: Request, plan: _Plan) -> None:
        """Put a running request back among the waiting ones; it will be recomputed."""
        plan.is_closed = True
        plan.remove(request)
        self._running.remove(request)
        self._leave_row(request)
        self._enqueue(request)
        self.counters.preemptions += 1

    def _enqueue(self, request: Request) -> None:
        request.state = RequestState.WAITING
        insort(self._waiting, request, key=_rank)
        self.num_waiting_prompt_tokens += request.num_prompt_tokens

    def _dequeue(self, request: Request) -> None:
        self._waiting.remove(request)
        self.num_waiting_prompt_tokens -= request.num_prompt_tokens

    def _leave_row(self, request: Request) -> None:
        """Give back row and blocks: now, or as soon as no step in flight contains the request."""
        self._releasing.add(request)
        if not request.num_inflight_steps:
            self._release(request)

    def _release(self, request: Request) -> None:
        self._releasing.remove(request)
        self._pool.free(request.block_ids)
        self._free_rows.append(request.row)
        request.row = -1
        request.block_ids = []
        request.num_registered_blocks = request.num_tabled_blocks = request.num_computed_tokens = 0
