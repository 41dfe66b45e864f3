"""Random lives of many requests: arrivals, aborts, preemptions, one to three steps in flight, all limits small.

`OCTAVO_SCHEDULER_STEPS=100000` makes the long run long.
"""

import contextlib
import os
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from octavo_engine.core.request import Request
from octavo_engine.core.scheduler import Scheduler
from octavo_engine.errors import InvalidRequest, QueueFull
from tests.engine.core_support import Engine

NUM_STEPS = int(os.environ.get("OCTAVO_SCHEDULER_STEPS", "5000"))
PREFIXES = [[i] * 8 + [7] * 16 + [i] * 16 for i in range(3)]


def check_ownership(scheduler: Scheduler) -> None:
    """Every block is free, cached, or owned by exactly the requests that list it; every row has at most one request."""
    holders: list[Request] = [*scheduler._running, *scheduler._releasing]
    pool = scheduler.pool
    assert pool.is_balanced()
    owners = Counter(block_id for request in holders for block_id in request.block_ids)
    assert all(pool.num_owners(block_id) == owners[block_id] for block_id in range(pool.num_blocks))
    assert pool.num_used == len(owners)
    assert all(request in holders for step in scheduler._in_flight for request in step.requests)
    rows = [request.row for request in holders] + scheduler._free_rows
    assert sorted(rows) == list(range(len(rows)))


class Watch:
    """Nobody starves: the first in rank gets on, however many steps ago it was looked at."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._seen: tuple[Request, int, int] | None = None
        self._num_steps_still = 0

    def look(self, scheduler: Scheduler) -> None:
        requests = [*scheduler._waiting._requests, *scheduler._running]
        first = min(requests, key=lambda request: request.rank, default=None)
        seen = (first, first.num_computed_tokens, len(first.token_ids)) if first else None
        self._num_steps_still = self._num_steps_still + 1 if seen and seen == self._seen else 0
        self._seen = seen
        assert self._num_steps_still <= self._patience, f"{first and first.request_id} does not advance"


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        depth=st.integers(1, 3),
        block_size=st.sampled_from([8, 16]),
        num_blocks=st.integers(8, 24),
        max_num_seqs=st.integers(1, 6),
        budget=st.integers(6, 60),
        chunk=st.sampled_from([None, 1, 7, 20]),
        caching=st.booleans(),
    )
    def start(
        self, depth: int, block_size: int, num_blocks: int, max_num_seqs: int, budget: int, chunk: int, caching: bool
    ) -> None:
        self.engine = Engine(
            depth=depth,
            num_blocks=num_blocks,
            block_size=block_size,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            prefill_chunk_size=chunk,
            enable_prefix_caching=caching,
            max_num_waiting=10,
        )
        self.scheduler = self.engine.core._scheduler
        self.watch = Watch(patience=depth + 1)

    @rule(
        prefix=st.sampled_from(PREFIXES),
        length=st.integers(0, 40),
        tail=st.lists(st.integers(0, 3), min_size=1, max_size=12),
        max_tokens=st.integers(1, 40),
        priority=st.integers(-1, 1),
        seed=st.none() | st.integers(0, 3),
    )
    def arrive(
        self, prefix: list[int], length: int, tail: list[int], max_tokens: int, priority: int, seed: int | None
    ) -> None:
        sampling: dict[str, Any] = {} if seed is None else {"temperature": 1.0, "seed": seed}
        try:
            self.engine.add([*prefix[:length], *tail], priority, max_tokens=max_tokens, **sampling)
        except InvalidRequest:
            assert length + len(tail) + max_tokens > self.scheduler.pool.num_blocks * self.engine.core._block_size
        except QueueFull:
            assert self.scheduler.num_waiting >= 10

    @precondition(lambda self: self.engine.requests)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.engine.abort(data.draw(st.sampled_from(sorted(self.engine.requests))))

    @rule(count=st.integers(1, 8))
    def step(self, count: int) -> None:
        for _ in range(count):
            if self.engine.core.has_work:
                self.engine.step()
                self.watch.look(self.scheduler)

    @invariant()
    def owns_every_block_once(self) -> None:
        if hasattr(self, "scheduler"):
            check_ownership(self.scheduler)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.run()
            self.engine.check_outputs()
            assert self.engine.core.stats().num_used_blocks == 0
            assert self.engine.core.stats().block_repairs_total == 0


SchedulerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestScheduler = SchedulerMachine.TestCase


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_long_random_life_keeps_every_invariant(depth: int) -> None:
    rng = random.Random(depth)
    num_steps = 0
    while num_steps < NUM_STEPS // 3:
        num_steps += live(rng, depth, num_steps=min(1000, NUM_STEPS // 3))


def live(rng: random.Random, depth: int, num_steps: int) -> int:
    """One engine for `num_steps` steps, overloaded all the time, then run until it is empty."""
    engine = Engine(
        depth=depth,
        num_blocks=rng.randint(12, 60),
        block_size=rng.choice([8, 16]),
        max_num_seqs=rng.randint(1, 16),
        max_num_batched_tokens=rng.randint(16, 100),
        prefill_chunk_size=rng.choice([None, 5, 32]),
        max_num_waiting=20,
    )
    scheduler, watch = engine.core._scheduler, Watch(patience=depth + 1)
    for _ in range(num_steps):
        if rng.random() < 0.3:
            arrive(engine, rng)
        if rng.random() < 0.03 and engine.requests:
            engine.abort(rng.choice(list(engine.requests)))
        if engine.core.has_work:
            engine.step()
        watch.look(scheduler)
        check_ownership(scheduler)
    engine.run()
    engine.check_outputs()
    assert engine.core.stats().block_repairs_total == 0
    return num_steps


def arrive(engine: Engine, rng: random.Random) -> None:
    prompt = rng.choice(PREFIXES)[: rng.randint(0, 40)] + [rng.randrange(4) for _ in range(rng.randint(1, 20))]
    sampling: dict[str, Any] = {"temperature": 1.0, "seed": rng.randrange(4)} if rng.random() < 0.3 else {}
    with contextlib.suppress(InvalidRequest, QueueFull):
        engine.add(prompt, rng.choice([0, 0, 0, 1, -1]), max_tokens=rng.randint(1, 40), **sampling)
