"""The scheduler's decisions, without any model."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from octavo_engine.core.batch import Batch, StepResult
from octavo_engine.core.request import Request
from octavo_engine.core.scheduler import Scheduler
from octavo_engine.errors import ConfigError, InvalidRequest, QueueFull
from octavo_engine.messages import AddRequest, TokenEvent
from octavo_engine.sampling_params import SamplingParams
from tests.engine.core_support import make_config


def create_scheduler(num_blocks: int = 100, max_model_len: int = 10_000, **overrides: Any) -> Scheduler:
    return Scheduler(make_config(**overrides), num_blocks, max_model_len)


def tokens() -> Iterator[int]:
    """Prompts that share nothing."""
    number = 0
    while True:
        yield number
        number += 1


TOKENS = tokens()


def add(scheduler: Scheduler, length: int, max_tokens: int = 10, priority: int = 0, arrival: int = 0) -> Request:
    prompt = [next(TOKENS) for _ in range(length)]
    request = Request(AddRequest(f"{prompt[:1]}", prompt, SamplingParams(max_tokens=max_tokens), priority), arrival)
    scheduler.add(request)
    return request


def commit(scheduler: Scheduler, batch: Batch) -> list[TokenEvent]:
    return scheduler.commit(StepResult([1] * sum(batch.is_sampling)))


def step(scheduler: Scheduler) -> Batch:
    batch = scheduler.schedule()
    assert batch
    commit(scheduler, batch)
    return batch


def test_decodes_and_prefills_share_a_step_decodes_first() -> None:
    scheduler = create_scheduler()
    add(scheduler, 10, arrival=0)
    step(scheduler)
    add(scheduler, 20, arrival=1)
    batch = step(scheduler)
    assert batch.num_new_tokens == [1, 20]
    assert batch.num_computed == [10, 0]
    assert batch.is_sampling == [True, True]


def test_a_step_never_exceeds_its_token_budget() -> None:
    scheduler = create_scheduler(max_num_batched_tokens=50)
    for arrival in range(3):
        add(scheduler, 30, arrival=arrival)
    assert step(scheduler).num_new_tokens == [30, 20]
    assert step(scheduler).num_new_tokens == [1, 10, 30]


def test_a_long_prompt_leaves_every_decode_its_token() -> None:
    scheduler = create_scheduler(max_num_batched_tokens=50, max_num_seqs=4)
    for arrival in range(3):
        add(scheduler, 5, arrival=arrival + 1)
    step(scheduler)
    add(scheduler, 500, priority=-1)
    for _ in range(5):
        assert step(scheduler).num_new_tokens == [1, 1, 1, 47]


def test_a_prompt_is_computed_in_chunks_of_the_given_size() -> None:
    scheduler = create_scheduler(prefill_chunk_size=16)
    add(scheduler, 40)
    batches = [step(scheduler) for _ in range(3)]
    assert [batch.num_new_tokens for batch in batches] == [[16], [16], [8]]
    assert [batch.is_sampling for batch in batches] == [[False], [False], [True]]


def test_without_chunked_prefill_a_prompt_waits_for_a_step_that_has_room_for_all_of_it() -> None:
    scheduler = create_scheduler(max_num_batched_tokens=64, enable_chunked_prefill=False, max_model_len=64)
    add(scheduler, 40, arrival=0)
    add(scheduler, 40, arrival=1)
    assert step(scheduler).num_new_tokens == [40]
    assert step(scheduler).num_new_tokens == [1, 40]


def test_without_chunked_prefill_the_budget_must_cover_the_longest_prompt() -> None:
    with pytest.raises(ConfigError, match="must be at least the context of 65 tokens"):
        create_scheduler(max_num_batched_tokens=64, enable_chunked_prefill=False, max_model_len=65)


def test_requests_start_by_priority_then_arrival() -> None:
    scheduler = create_scheduler(max_num_seqs=1)
    late, urgent, early = (
        add(scheduler, 5, 1, arrival=3),
        add(scheduler, 6, 1, priority=-1, arrival=2),
        add(scheduler, 7, 1, arrival=1),
    )
    started = [step(scheduler).num_new_tokens for _ in range(3)]
    assert started == [[6], [7], [5]]
    assert [request.num_inflight_steps for request in (late, urgent, early)] == [0, 0, 0]


def test_no_more_sequences_run_than_allowed() -> None:
    scheduler = create_scheduler(max_num_seqs=3)
    for arrival in range(5):
        add(scheduler, 5, arrival=arrival)
    assert len(step(scheduler).rows) == 3
    assert (scheduler.num_running, scheduler.num_waiting) == (3, 2)


def test_a_decode_short_of_a_block_preempts_the_youngest() -> None:
    scheduler = create_scheduler(num_blocks=4, block_size=8)
    old, young = add(scheduler, 8, 20, arrival=0), add(scheduler, 15, 10, arrival=1)
    step(scheduler)
    while scheduler.counters.preemptions == 0:
        step(scheduler)
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 1)
    assert young.block_ids == []
    assert old.block_ids


def test_one_shortage_costs_one_preemption_although_blocks_return_a_step_later() -> None:
    """The oldest runs short one step after the two others have taken the last blocks."""
    scheduler = create_scheduler(num_blocks=11, block_size=8, enable_prefix_caching=False)
    for arrival, length in enumerate([22, 23, 23]):
        add(scheduler, length, 9, arrival=arrival)
    in_flight = deque([scheduler.schedule(), scheduler.schedule()])
    while batch := in_flight.popleft():
        commit(scheduler, batch)
        in_flight.append(scheduler.schedule())
    assert scheduler.counters.preemptions == 1


def test_an_urgent_request_takes_the_row_of_a_less_urgent_one() -> None:
    scheduler = create_scheduler(max_num_seqs=2)
    add(scheduler, 5, priority=0, arrival=0)
    victim = add(scheduler, 5, priority=1, arrival=1)
    step(scheduler)
    urgent = add(scheduler, 5, priority=-1, arrival=2)
    step(scheduler)
    assert victim.row == -1 or victim.block_ids == []
    assert urgent.block_ids
    assert scheduler.num_waiting == 1


def test_an_urgent_request_displaces_no_more_than_it_needs_although_room_comes_a_step_later() -> None:
    scheduler = create_scheduler(max_num_seqs=3)
    for arrival in range(3):
        add(scheduler, 5, priority=1, arrival=arrival)
    in_flight = deque([scheduler.schedule()])
    urgent = add(scheduler, 5, arrival=3)
    in_flight.append(scheduler.schedule())
    assert scheduler.counters.preemptions == 1
    for _ in range(2):
        batch = in_flight.popleft()
        assert batch
        commit(scheduler, batch)
        in_flight.append(scheduler.schedule())
    assert scheduler.counters.preemptions == 1
    assert urgent.block_ids


def test_an_urgent_request_displaces_nobody_if_that_would_not_make_room() -> None:
    scheduler = create_scheduler(num_blocks=10, block_size=8)
    add(scheduler, 48, priority=0, arrival=0)
    add(scheduler, 8, priority=1, arrival=1)
    step(scheduler)
    add(scheduler, 48, priority=0, arrival=2)
    step(scheduler)
    assert scheduler.counters.preemptions == 0
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)


def test_equal_priority_never_takes_a_row() -> None:
    scheduler = create_scheduler(max_num_seqs=1)
    add(scheduler, 5, arrival=1)
    step(scheduler)
    add(scheduler, 5, arrival=0)
    step(scheduler)
    assert scheduler.counters.preemptions == 0


def test_a_newcomer_leaves_a_block_to_every_two_running_requests() -> None:
    scheduler = create_scheduler(num_blocks=6, block_size=8, enable_prefix_caching=False)
    for arrival in range(2):
        add(scheduler, 16, arrival=arrival)
    step(scheduler)
    add(scheduler, 16, arrival=2)
    step(scheduler)
    assert scheduler.num_waiting == 1


def test_the_next_decode_is_scheduled_before_its_input_token_is_known() -> None:
    scheduler = create_scheduler()
    request = add(scheduler, 10, max_tokens=3)
    first, second = scheduler.schedule(), scheduler.schedule()
    assert first
    assert second
    assert second.num_computed == [10]
    assert len(request.token_ids) == 10
    assert [event.token_ids for event in commit(scheduler, first)] == [[1]]


def test_no_token_beyond_max_tokens_is_scheduled() -> None:
    scheduler = create_scheduler()
    add(scheduler, 10, max_tokens=2)
    first, second = scheduler.schedule(), scheduler.schedule()
    assert scheduler.schedule() is None
    assert first
    assert second
    commit(scheduler, first)
    assert commit(scheduler, second)[0].finish_reason == "length"
    assert scheduler.is_idle


def test_blocks_of_an_aborted_request_return_when_no_step_in_flight_contains_it() -> None:
    scheduler = create_scheduler()
    request = add(scheduler, 10)
    first, second = scheduler.schedule(), scheduler.schedule()
    assert first
    assert second
    scheduler.abort(request)
    assert commit(scheduler, first) == []
    assert scheduler.pool.num_used == 1
    assert commit(scheduler, second) == []
    assert scheduler.pool.num_used == 0


def test_a_row_is_described_once_and_then_only_its_new_blocks() -> None:
    scheduler = create_scheduler(block_size=8)
    request = add(scheduler, 8, max_tokens=20)
    first = step(scheduler)
    assert first.new_rows[0].block_ids == request.block_ids[:1]
    second = step(scheduler)
    assert second.new_rows == []
    assert second.new_block_ids == [(request.row, request.block_ids[1:])]
    third = step(scheduler)
    assert (third.new_rows, third.new_block_ids) == ([], [])


@pytest.mark.parametrize(
    ("length", "max_tokens", "message"),
    [
        (0, 1, "the prompt is empty"),
        (1, 0, "max_tokens must be at least 1, got 0"),
        (90, 11, "90 prompt tokens [+] max_tokens 11 exceed the limit of 100 tokens"),
        (801, 1, "exceed the limit"),
    ],
)
def test_a_request_that_can_never_run_is_refused_at_once(length: int, max_tokens: int, message: str) -> None:
    scheduler = create_scheduler(max_model_len=100)
    with pytest.raises(InvalidRequest, match=message):
        add(scheduler, length, max_tokens)
    assert scheduler.is_idle


def test_the_blocks_limit_a_request_as_the_model_does() -> None:
    scheduler = create_scheduler(num_blocks=4, block_size=8)
    with pytest.raises(InvalidRequest, match="limit of 32 tokens"):
        add(scheduler, 30, 3)
    add(scheduler, 30, 2)
    step(scheduler)
    step(scheduler)
    assert scheduler.is_idle


def test_waiting_requests_and_tokens_are_bounded() -> None:
    scheduler = create_scheduler(max_num_seqs=2, max_num_waiting=1, max_waiting_tokens=25)
    for arrival in range(2):
        add(scheduler, 10, arrival=arrival)
    with pytest.raises(QueueFull, match="20 prompt tokens wait already"):
        add(scheduler, 10)
    step(scheduler)
    add(scheduler, 10)
    with pytest.raises(QueueFull, match="1 requests wait already"):
        add(scheduler, 10)
    assert scheduler.num_waiting_prompt_tokens == 10
