"""The engine without its surroundings: requests in, token events out, one step at a time."""

import logging
import time
from collections import deque
from collections.abc import Iterable

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import ModelRunner, PendingStep
from octavo_engine.core.request import Request
from octavo_engine.core.scheduler import Scheduler
from octavo_engine.errors import InvalidRequest, OutOfDeviceMemory
from octavo_engine.messages import AddRequest, EngineStats, TokenEvent

logger = logging.getLogger(__name__)


class EngineCore:
    """Keeps up to `runner.max_inflight_steps` steps on the device while it schedules the next one."""

    def __init__(self, config: EngineConfig, runner: ModelRunner, eos_token_ids: Iterable[int]) -> None:
        self._scheduler = Scheduler(config, runner.num_blocks, runner.max_model_len)
        self._runner = runner
        self._eos_token_ids = frozenset(eos_token_ids)
        self._block_size = config.block_size
        self._requests: dict[str, Request] = {}
        self._pending: deque[PendingStep] = deque()
        self._num_arrivals = 0
        self._num_steps = 0
        self._num_repairs = 0
        self._num_sheds = 0
        self._step_seconds = 0.0

    @property
    def has_work(self) -> bool:
        return not self._scheduler.is_idle

    def add(self, message: AddRequest) -> None:
        """Queue a request. Raises InvalidRequest if it could never run, QueueFull if too many wait."""
        if message.request_id in self._requests:
            raise InvalidRequest(f"request id {message.request_id!r} is in use", field="request_id")
        try:
            request = Request(message, self._num_arrivals, self._eos_token_ids)
        except OverflowError as error:
            raise InvalidRequest("token ids must be below 2**31", field="prompt") from error
        self._scheduler.add(request)
        self._num_arrivals += 1
        self._requests[message.request_id] = request

    def abort(self, request_id: str) -> None:
        """End a request in any state; unknown and finished ones are ignored, for they cross with their last event."""
        if request := self._requests.pop(request_id, None):
            self._scheduler.abort(request)
            self._check_balance()

    def step(self) -> list[TokenEvent]:
        """Keep the device busy, then take in the oldest result."""
        started = time.perf_counter()
        try:
            self._submit()
            events = self._commit()
        except OutOfDeviceMemory as error:
            events = self._shed(error)
        self._forget_finished(events)
        self._check_balance()
        self._step_seconds = time.perf_counter() - started
        return events

    def stats(self) -> EngineStats:
        scheduler, counters = self._scheduler, self._scheduler.counters
        return EngineStats(
            num_running=scheduler.num_running,
            num_waiting=scheduler.num_waiting,
            num_waiting_prompt_tokens=scheduler.num_waiting_prompt_tokens,
            num_blocks=scheduler.pool.num_blocks,
            num_used_blocks=scheduler.pool.num_used,
            num_cached_blocks=scheduler.pool.num_cached,
            block_size=self._block_size,
            steps_total=self._num_steps,
            preemptions_total=counters.preemptions,
            prompt_tokens_total=counters.prompt_tokens,
            generation_tokens_total=counters.generation_tokens,
            prefix_hit_tokens_total=counters.prefix_hit_tokens,
            prefix_miss_tokens_total=counters.prefix_miss_tokens,
            block_repairs_total=self._num_repairs,
            steps_shed_total=self._num_sheds,
            step_seconds=self._step_seconds,
            is_idle=scheduler.is_idle,
        )

    def _submit(self) -> None:
        while len(self._pending) < self._runner.max_inflight_steps and (
            batch := self._scheduler.schedule(time.monotonic())
        ):
            self._pending.append(self._runner.submit(batch))

    def _commit(self) -> list[TokenEvent]:
        if not self._pending:
            return []
        events = self._scheduler.commit(self._pending.popleft().result())
        self._num_steps += 1
        return events

    def _shed(self, error: OutOfDeviceMemory) -> list[TokenEvent]:
        self._pending.clear()
        if not self._scheduler.shed():
            raise error
        self._num_sheds += 1
        logger.warning("a step ran out of device memory and is repeated in smaller ones: %s", error)
        return []

    def _forget_finished(self, events: list[TokenEvent]) -> None:
        for event in events:
            if event.finish_reason:
                del self._requests[event.request_id]

    def _check_balance(self) -> None:
        if not self.has_work and self._scheduler.repair():
            self._num_repairs += 1
            logger.error("KV blocks were not all free although the engine is idle; all are free again")
