"""The load: a crowd comes, replicas grow; the crowd leaves, replicas drain one by one. Sampled once a second."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from dev.demo.crowd import Crowd
from dev.demo.observe import ServiceView
from dev.demo.steps import StepFailed
from dev.demo.timeline import Sample, Timeline


class Looks(Protocol):
    """Whatever can say how the service is."""

    async def look(self) -> ServiceView: ...


Show = Callable[[Sample], None]


@dataclass(frozen=True)
class LoadPlan:
    """How large the crowd is, what must be seen before it leaves, and how long to wait (seconds)."""

    crowd: int = 32
    stragglers: int = 2
    min_streams: int = 300
    max_replicas: int = 3
    rise_timeout: float = 180
    stay_timeout: float = 600
    fall_timeout: float = 240


class LoadTest:
    """Drives one crowd and records what the service did meanwhile."""

    def __init__(self, crowd: Crowd, watcher: Looks, timeline: Timeline, plan: LoadPlan, show: Show) -> None:
        self._crowd = crowd
        self._watcher = watcher
        self._timeline = timeline
        self._plan = plan
        self._show = show
        self._began = time.monotonic()
        self._speed = Speedometer()

    async def run(self) -> None:
        """Raise `StepFailed` when the replicas do not grow, or do not come back."""
        try:
            await self._rise()
            await self._fall()
            await self._crowd.leave()
        finally:
            await self._crowd.dismiss()

    async def _rise(self) -> None:
        plan = self._plan
        self._mark("crowd comes")
        self._crowd.resize(plan.crowd)
        await self._until(self._is_risen, plan.rise_timeout, f"the replicas did not grow to {plan.max_replicas}")
        await self._until(self._is_heard, plan.stay_timeout, f"the crowd did not get {plan.min_streams} answers")

    async def _fall(self) -> None:
        """A few stay and keep asking, so that replicas drain with streams on them."""
        self._mark("crowd leaves")
        self._crowd.resize(self._plan.stragglers)
        await self._until(_is_back, self._plan.fall_timeout, "the replicas did not come back to 1")

    def _is_risen(self, now: ServiceView) -> bool:
        return now.ready >= self._plan.max_replicas

    def _is_heard(self, _: ServiceView) -> bool:
        return len(self._crowd.results) >= self._plan.min_streams

    async def _until(self, condition: Callable[[ServiceView], bool], within: float, complaint: str) -> None:
        deadline = time.monotonic() + within
        while not condition(now := await self._sample()):
            self._fail_early_if_nothing_works()
            if time.monotonic() > deadline:
                raise StepFailed(f"{complaint} within {within:.0f} s; last seen: {now}")
            await asyncio.sleep(1)

    def _fail_early_if_nothing_works(self) -> None:
        results = self._crowd.results
        if len(results) >= self._plan.crowd and all(result.is_cut for result in results):
            raise StepFailed(f"none of {len(results)} streams ended well; the last one: {results[-1].error}")

    async def _sample(self) -> ServiceView:
        now = await self._watcher.look()
        t = round(time.monotonic() - self._began, 1)
        seen = {key: value for key, value in asdict(now).items() if key != "history"}
        sample = Sample(t=t, tokens_per_second=self._speed.read(t, self._crowd.num_tokens), **seen)
        self._timeline.samples.append(sample)
        self._timeline.add_decisions(t, now.history)
        self._show(sample)
        return now

    def _mark(self, text: str) -> None:
        self._timeline.marks.append((round(time.monotonic() - self._began, 1), text))


def _is_back(now: ServiceView) -> bool:
    return now.ready == 1 and now.is_at_rest


class Speedometer:
    """Tokens per second over the last seconds, from a counter."""

    def __init__(self, window: float = 5) -> None:
        self._window = window
        self._readings: list[tuple[float, int]] = []

    def read(self, t: float, counter: int) -> float:
        """Take one reading of `counter` at `t` seconds and return the speed."""
        self._readings.append((t, counter))
        while len(self._readings) > 2 and self._readings[1][0] <= t - self._window:
            self._readings.pop(0)
        (first_t, first), (last_t, last) = self._readings[0], self._readings[-1]
        return round((last - first) / (last_t - first_t), 1) if last_t > first_t else 0.0
