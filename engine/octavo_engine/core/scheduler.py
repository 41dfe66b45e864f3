"""Decides what each step computes. Pure policy over plain data: no torch, no clock, no I/O."""

from bisect import insort
from collections import deque

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import Batch, StepResult
from octavo_engine.core.block_pool import BlockPool
from octavo_engine.core.counters import Counters
from octavo_engine.core.kv_manager import KVManager
from octavo_engine.core.limits import Limits
from octavo_engine.core.plan import Plan, StepInFlight
from octavo_engine.core.request import Request, RequestState, rank_of
from octavo_engine.core.waiting_queue import WaitingQueue
from octavo_engine.messages import FinishReason, TokenEvent


class Scheduler:
    """Continuous batching under a token budget.

    One notion covers everything: each step lets requests' computed tokens catch up with their tokens. Decodes come
    first, one token each; what remains of the budget goes to prefills, running and waiting ones alike in order of
    (priority, arrival). A request is admitted when blocks for all its tokens are there and half a block to spare for
    each running one, so only decodes can run short; then the last in that order is preempted, to be recomputed later.

    `schedule` may be called again before `commit` has seen the result of earlier steps. The runner executes steps in
    order; blocks and row of a request return only when no step in flight contains it.
    """

    def __init__(self, config: EngineConfig, num_blocks: int, max_model_len: int) -> None:
        self._config = config
        self._limits = Limits(config, num_blocks, max_model_len)
        self._kv = KVManager(num_blocks, config.block_size, config.enable_prefix_caching)
        self._free_rows = list(range(config.max_num_seqs - 1, -1, -1))
        self._budget = config.max_num_batched_tokens
        self._waiting = WaitingQueue(config.max_num_waiting, config.max_waiting_tokens)
        self._running: list[Request] = []
        self._releasing: set[Request] = set()
        self._in_flight: deque[StepInFlight] = deque()
        self.counters = Counters()

    @property
    def pool(self) -> BlockPool:
        return self._kv.pool

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_waiting_prompt_tokens(self) -> int:
        return self._waiting.num_prompt_tokens

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._running or self._in_flight)

    def add(self, request: Request) -> None:
        """Queue a request. InvalidRequest when it could never run, QueueFull when too much waits already."""
        self._limits.check(request)
        self._waiting.check(request, len(self._free_rows))
        self._waiting.add(request)

    def abort(self, request: Request) -> None:
        """End a request in whatever state it is, without an event."""
        if request.state is not RequestState.FINISHED:
            self._finish(request)

    def schedule(self, now: float = 0.0) -> Batch | None:
        """The next step, or None when nothing can be computed before a result is committed or a request arrives. `now`
        is noted as the start of those who begin with it."""
        plan = Plan(self._budget, now)
        prefills = self._plan_decodes(plan)
        self._plan_prefills(plan, prefills)
        if not plan.chunks:
            return None
        batch, step = plan.launch()
        self._in_flight.append(step)
        return batch

    def commit(self, result: StepResult) -> list[TokenEvent]:
        """Take in the result of the oldest step in flight: append tokens, finish requests, free what nobody uses."""
        step = self._in_flight.popleft()
        for request in step.requests:
            request.num_inflight_steps -= 1
        sampled = zip(step.sampling, result.token_ids, strict=True)
        events = [event for request, token_id in sampled if (event := self._accept(request, token_id))]
        if self._releasing:
            for request in [request for request in self._releasing if not request.num_inflight_steps]:
                self._release(request)
        return events

    def shed(self) -> bool:
        """The steps in flight failed for lack of device memory: their requests start over, and steps become half as
        large. False when they are as small as they can be."""
        can_shrink = self._budget > self._config.max_num_seqs and self._config.enable_chunked_prefill
        self._budget = max(self._budget // 2, self._config.max_num_seqs)
        lost = {request: None for step in self._in_flight for request in step.requests}
        self._in_flight.clear()
        for request in lost:
            request.num_inflight_steps = request.num_pending_tokens = 0
            if request.state is RequestState.RUNNING:
                self._preempt(request)
            elif request in self._releasing:
                self._release(request)
        self._kv.forget_all()
        return can_shrink

    def repair(self) -> bool:
        """When idle all blocks and rows are free. If they are not, start over with all free; says whether it had to."""
        num_rows = self._config.max_num_seqs
        is_row_lost = len(self._free_rows) != num_rows
        if is_row_lost:
            self._free_rows = list(range(num_rows - 1, -1, -1))
        return self._kv.repair() or is_row_lost

    def _plan_decodes(self, plan: Plan) -> deque[Request]:
        """Plan one token for each running request that lacks just one; return those that lack more."""
        prefills: deque[Request] = deque()
        for request in self._running.copy():
            num_tokens = request.num_uncomputed_tokens
            if num_tokens > 1:
                prefills.append(request)
            elif num_tokens and plan.budget and self._make_slot(request, plan):
                plan.add(request, 1)
        return prefills

    def _make_slot(self, request: Request, plan: Plan) -> bool:
        """Make sure of a KV slot for one more token, at the expense of the last in rank if need be."""
        while request.state is RequestState.RUNNING:
            if self._kv.grow(request):
                return True
            plan.is_closed = True
            if self._releasing:
                return False
            self._preempt_last(plan)
        return False

    def _plan_prefills(self, plan: Plan, prefills: deque[Request]) -> None:
        """Spend what remains of the budget on prompts, running and waiting ones merged by rank."""
        while plan.budget:
            request = self._admit_before(prefills[0] if prefills else None, plan)
            if request is None:
                if not prefills:
                    return
                request = prefills.popleft()
            if request.state is RequestState.RUNNING and not self._plan_chunk(request, plan):
                return

    def _plan_chunk(self, request: Request, plan: Plan) -> bool:
        """Plan the next part of a prompt. False when it has to wait for a step with more budget left."""
        num_uncomputed = request.num_uncomputed_tokens
        num_tokens = min(num_uncomputed, plan.budget, self._config.prefill_chunk_size or num_uncomputed)
        if num_tokens < num_uncomputed and not self._config.enable_chunked_prefill:
            return False
        plan.add(request, num_tokens)
        self._kv.register(request)
        return True

    def _admit_before(self, other: Request | None, plan: Plan) -> Request | None:
        """Start the first waiting request, if it ranks before `other` and there is room for it."""
        if not self._waiting or plan.is_closed or (other and other.rank < self._waiting.first.rank):
            return None
        request = self._waiting.first
        hits = None if request.num_inflight_steps else self._find_room(request, plan)
        if hits is None:
            plan.is_closed = True
            return None
        self._start(request, hits, plan.now)
        return request

    def _find_room(self, request: Request, plan: Plan) -> list[int] | None:
        """The cached blocks that the request begins with, if a row and all other blocks that it needs are free. Running
        requests of lower priority make way. None when that is not enough, or has to wait for a step in flight."""
        hits = self._kv.match(request)
        while not (self._free_rows and self._has_room(request, hits)):
            num_coming = sum(len(leaving.block_ids) for leaving in self._releasing)
            if num_coming and self._has_room(request, hits, num_coming):
                return None
            num_yielding = self._num_blocks_below(request)
            if not (num_yielding and self._has_room(request, hits, num_coming + num_yielding)):
                return None
            self._preempt_last(plan)
        return hits

    def _has_room(self, request: Request, hits: list[int], num_more: int = 0) -> bool:
        """Whether the request could start if `num_more` blocks were free, with half a block for each running one."""
        return self._kv.can_start(request, hits, len(self._running) // 2 - num_more)

    def _num_blocks_below(self, request: Request) -> int:
        """Blocks of the running requests that are less urgent."""
        num_blocks = 0
        for other in reversed(self._running):
            if other.priority <= request.priority:
                break
            num_blocks += len(other.block_ids)
        return num_blocks

    def _start(self, request: Request, hits: list[int], now: float) -> None:
        self._waiting.remove(request)
        self._kv.start(request, hits)
        request.row = self._free_rows.pop()
        request.state = RequestState.RUNNING
        insort(self._running, request, key=rank_of)
        if request.num_cached_tokens is None:
            request.num_cached_tokens, request.started_at = request.num_computed_tokens, now
            self.counters.count_start(request)

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
            self._kv.register(request)
        if finish_reason:
            self._finish(request)
        return _event(request, token_id, finish_reason)

    def _fail(self, request: Request) -> TokenEvent:
        """End a request whose logits were not finite, and let no later one find its blocks."""
        self._kv.forget(request)
        self._finish(request)
        error = "the model's logits were not finite (NaN or infinity)"
        return TokenEvent(request.request_id, [], "error", error=error, error_code="internal")

    def _finish(self, request: Request) -> None:
        if request.state is RequestState.WAITING:
            self._waiting.remove(request)
        else:
            self._leave(request)
        request.state = RequestState.FINISHED

    def _preempt_last(self, plan: Plan) -> None:
        plan.is_closed = True
        plan.remove(self._running[-1])
        self._preempt(self._running[-1])

    def _preempt(self, request: Request) -> None:
        """Put a running request back among the waiting ones; it will be recomputed."""
        self._leave(request)
        request.state = RequestState.WAITING
        self._waiting.add(request)
        self.counters.preemptions += 1

    def _leave(self, request: Request) -> None:
        """Stop running. Blocks and row return now, or as soon as no step in flight contains the request."""
        self._running.remove(request)
        self._releasing.add(request)
        if not request.num_inflight_steps:
            self._release(request)

    def _release(self, request: Request) -> None:
        self._releasing.remove(request)
        self._kv.release(request)
        self._free_rows.append(request.row)


def _event(request: Request, token_id: int, finish_reason: FinishReason | None) -> TokenEvent:
    return TokenEvent(
        request_id=request.request_id,
        token_ids=[token_id],
        finish_reason=finish_reason,
        stop_token_id=token_id if finish_reason == "stop" else None,
        num_cached_tokens=request.num_cached_tokens or 0,
        started_at=request.started_at,
    )
