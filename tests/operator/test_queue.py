"""The queue of keys."""

import asyncio

import pytest

from octavo_operator.queue import KeyedQueue


async def take(queue: KeyedQueue) -> str:
    return await asyncio.wait_for(queue.get(), timeout=2)


async def is_empty(queue: KeyedQueue) -> bool:
    try:
        await asyncio.wait_for(queue.get(), timeout=0.02)
    except TimeoutError:
        return True
    return False


async def test_a_key_waits_at_most_once() -> None:
    queue = KeyedQueue()
    for _ in range(100):
        queue.add("a")
    queue.add("b")
    assert len(queue) == 2
    assert [await take(queue), await take(queue)] == ["a", "b"]
    assert await is_empty(queue)


async def test_a_key_is_worked_on_by_one_worker_and_then_again() -> None:
    queue = KeyedQueue()
    queue.add("a")
    await take(queue)
    queue.add("a")
    queue.add("a")
    assert await is_empty(queue)
    queue.done("a")
    assert await take(queue) == "a"
    queue.done("a")
    assert await is_empty(queue)


async def test_failures_back_off_and_success_forgets_them() -> None:
    queue = KeyedQueue()
    delays = []
    for _ in range(10):
        queue.add("a")
        await take(queue)
        delays.append(queue.retry("a"))
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == 60.0
    queue.add("a")
    await take(queue)
    queue.done("a")
    queue.add("a")
    await take(queue)
    assert queue.retry("a") == 0.5


async def test_the_server_may_ask_for_a_longer_delay() -> None:
    queue = KeyedQueue()
    queue.add("a")
    await take(queue)
    assert queue.retry("a", at_least=7.0) == 7.0


@pytest.mark.parametrize("delays", [(0.02, 5.0), (5.0, 0.02)])
async def test_of_two_delays_the_earlier_counts(delays: tuple[float, float]) -> None:
    queue = KeyedQueue()
    for delay in delays:
        queue.add_after("a", delay)
    assert await take(queue) == "a"


async def test_a_change_does_not_wait_for_the_back_off() -> None:
    queue = KeyedQueue()
    queue.add("a")
    await take(queue)
    queue.retry("a", at_least=60)
    queue.add("a")
    assert await take(queue) == "a"
