"""A service seen by the autoscaler: engines that say what a test tells them, and a clock that tests move."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from octavo_operator.autoscaler import decide
from octavo_operator.autoscaler.types import (
    AutoscalerState,
    AutoscalingSpec,
    Decision,
    EngineMetrics,
    Observation,
    PodPhase,
    PodSample,
    PodView,
    ScaleDownSpec,
)

KV_TOKENS = 1000.0
INTERVAL = 5.0

QUICK = AutoscalingSpec(max_replicas=10, scale_down=ScaleDownSpec(stabilization_seconds=30, period_seconds=5))
"""Shrinks after 30 s, so that a test needs few looks."""


def engine(
    used: float = 0.0,
    waiting: float = 0.0,
    prompt_tokens: float = 0.0,
    running: float | None = None,
    kv_tokens: float = KV_TOKENS,
) -> EngineMetrics:
    """An engine that holds `used` of its KV tokens for running requests, by default one if any are used."""
    running = (1.0 if used else 0.0) if running is None else running
    return EngineMetrics(
        kv_total_tokens=kv_tokens,
        kv_used_tokens=used,
        waiting_prompt_tokens=prompt_tokens,
        num_running=running,
        num_waiting=waiting,
        num_swapped=0.0,
        steps_total=0.0,
        is_idle=running + waiting == 0,
    )


IDLE = engine()

Answer = EngineMetrics | str | None
"""What a scrape brings: metrics, a failure, or nothing at all."""


@dataclass
class Service:
    """Does what the autoscaler desires at once: pod-0, pod-1… are ready, as many as answers are given to `look`."""

    spec: AutoscalingSpec = QUICK
    replicas: int = 1
    now: float = 1_000.0
    state: AutoscalerState = field(default_factory=AutoscalerState)
    steps: float = 0.0

    def look(
        self,
        *answers: Answer,
        others: Collection[PodPhase] = (),
        frozen: Collection[int] = (),
        phases: Mapping[int, PodPhase] | None = None,
        after: float = INTERVAL,
    ) -> Decision:
        """One look `after` seconds. Engines made progress since the last one, except for those `frozen`.

        All that answer are ready, unless `phases` says otherwise; `others` are further pods.
        """
        self.now += after
        self.steps += 1
        pods = tuple(PodView(f"pod-{i}", (phases or {}).get(i, "Ready")) for i in range(len(answers)))
        rest = tuple(PodView(f"other-{i}", phase) for i, phase in enumerate(others))
        samples = tuple(
            self._sample(f"pod-{i}", answer, is_frozen=i in frozen)
            for i, answer in enumerate(answers)
            if answer is not None
        )
        decision = decide(self.state, Observation(self.replicas, pods + rest, samples), self.spec, self.now)
        self.state = decision.state
        self.replicas = decision.desired
        return decision

    def look_for(self, seconds: float, *answers: Answer, others: Collection[PodPhase] = ()) -> Decision:
        """Looks at the same answers until `seconds` have passed; the last decision."""
        end = self.now + seconds
        decision = self.look(*answers, others=others)
        while self.now < end:
            decision = self.look(*answers, others=others)
        return decision

    def look_until_moved(self, *answers: Answer, within: float = 600.0) -> Decision:
        """Looks at the same answers until the number changes; the decision that changed it."""
        before, end = self.replicas, self.now + within
        while self.now < end:
            decision = self.look(*answers)
            if decision.desired != before:
                return decision
        raise AssertionError(f"still {before} replicas after {within:g} s: {decision.reason}")

    def restart(self, after: float = INTERVAL) -> None:
        """The operator loses its memory."""
        self.now += after
        self.state = AutoscalerState()

    def _sample(self, pod: str, answer: EngineMetrics | str, is_frozen: bool) -> PodSample:
        if isinstance(answer, str):
            return PodSample(pod, "10.0.0.1", self.now, failure=answer)
        steps = answer.steps_total if is_frozen else self.steps
        return PodSample(pod, "10.0.0.1", self.now, metrics=replace(answer, steps_total=steps))


def condition(decision: Decision, type_: str) -> tuple[str, str]:
    """Status and reason."""
    found = next(c for c in decision.conditions if c.type == type_)
    return found.status, found.reason
