"""When to ask: closed loop with a number of clients, or open loop with random arrivals."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from octavo_engine.bench.client import Target, Timing, measure
from octavo_engine.bench.workload import Prompt

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Load:
    """`request_rate` is the mean of arrivals per second (open loop); without it `max_concurrency` clients ask one
    request after the other. `burstiness` is the shape of the gamma distribution of the times between arrivals: 1 is
    Poisson, less is burstier."""

    max_concurrency: int | None = None
    request_rate: float | None = None
    burstiness: float = 1.0
    num_warmups: int = 0
    timeout_seconds: float = 600.0
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    timings: list[Timing]
    seconds: float


async def run_load(target: Target, prompts: Sequence[Prompt], load: Load, api_key: str | None = None) -> Outcome:
    """Send all prompts; warm-ups go first and are not counted."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=load.timeout_seconds, sock_connect=10),
        headers=headers,
    ) as session:

        async def ask(prompt: Prompt) -> Timing:
            return await measure(session, target, prompt)

        await asyncio.gather(*map(ask, prompts[: load.num_warmups]))
        started = time.perf_counter()
        timings = await (open_loop(prompts, ask, load) if load.request_rate else closed_loop(prompts, ask, load))
        return Outcome(timings, time.perf_counter() - started)


async def closed_loop(items: Sequence[Item], ask: Callable[[Item], Awaitable[Result]], load: Load) -> list[Result]:
    waiting = iter(items)
    results: list[Result] = []

    async def client() -> None:
        for item in waiting:
            results.append(await ask(item))  # noqa: PERF401

    await asyncio.gather(*(client() for _ in range(load.max_concurrency or 1)))
    return results


async def open_loop(items: Sequence[Item], ask: Callable[[Item], Awaitable[Result]], load: Load) -> list[Result]:
    """Arrivals are fixed beforehand, so that a slow server does not slow them down."""
    places = asyncio.Semaphore(load.max_concurrency or len(items) or 1)
    rng = random.Random(load.seed)
    arrival = time.perf_counter()

    async def ask_within_limit(item: Item) -> Result:
        async with places:
            return await ask(item)

    tasks = []
    for item in items:
        await asyncio.sleep(arrival - time.perf_counter())
        tasks.append(asyncio.create_task(ask_within_limit(item)))
        arrival += _interval(rng, load)
    return await asyncio.gather(*tasks)


def _interval(rng: random.Random, load: Load) -> float:
    assert load.request_rate is not None
    return rng.gammavariate(load.burstiness, 1 / (load.request_rate * load.burstiness))
