"""What holds for every history. OCTAVO_EXAMPLES sets the number of histories for each property."""

import itertools
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_operator.autoscaler import decide, load_state, store_state
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
    ScaleUpSpec,
)
from tests.operator.autoscaler_fakes import INTERVAL, QUICK, Service, engine

histories = settings(max_examples=int(os.environ.get("OCTAVO_EXAMPLES", "100")), deadline=None)

TARGET = 750.0
STEPS_AT_START = 1e6
STALE_AFTER = QUICK.metrics.stale_after_seconds
WATCHED = replace(QUICK, mode="Advisory", scale_up=ScaleUpSpec(max_pods=100))
"""Decides without acting, so that a history's number of replicas stays as it was drawn."""

SPOILS = ("absent", "failed", "nan", "negative", "frozen", "restarted", "old")
loads = st.floats(0, TARGET)
heavy_loads = st.floats(0, 5 * TARGET)


@dataclass(frozen=True)
class Moment:
    """One look at every pod: its load in tokens, and what is wrong with its answer, if anything."""

    loads: tuple[float, ...]
    spoils: tuple[str | None, ...]


@st.composite
def spoiled_histories(draw: st.DrawFn, tokens: st.SearchStrategy[float] = loads) -> tuple[Moment, ...]:
    num_pods = draw(st.integers(1, 5))
    spoils = st.one_of(st.none(), st.sampled_from(SPOILS))
    moment = st.builds(
        Moment,
        loads=st.tuples(*[tokens] * num_pods),
        spoils=st.tuples(*[spoils] * num_pods),
    )
    return tuple(draw(st.lists(moment, min_size=1, max_size=16)))


def serving(tokens: float, steps: float) -> EngineMetrics:
    """An engine with that many tokens in its cache and, past its size, in its queue."""
    metrics = engine(used=min(tokens, 1000), prompt_tokens=max(tokens - 1000, 0))
    return replace(metrics, steps_total=steps)


def spoiled_sample(pod: str, spoil: str, newest: PodSample | None, now: float) -> PodSample | None:
    """What a pod brings instead of the truth; `newest` is the last sample with possible figures that it brought."""
    idle = engine()
    match spoil:
        case "failed":
            return PodSample(pod, "", now, failure="no whole answer within 2 s")
        case "nan":
            return PodSample(pod, "", now, metrics=replace(idle, num_waiting=math.nan, steps_total=now))
        case "negative":
            return PodSample(pod, "", now, metrics=replace(idle, kv_used_tokens=-1, steps_total=now))
        case "restarted" if newest is not None:
            return PodSample(pod, "", now, metrics=replace(idle, steps_total=STEPS_AT_START - now))
        case "frozen" if newest is not None and newest.metrics is not None and newest.metrics.has_work:
            return replace(newest, at=now)
        case "old":
            return newest
        case _:
            return None


@dataclass
class Pod:
    """An engine whose answers may be spoiled on their way. `good` is its last true answer."""

    name: str
    good: PodSample | None = None
    newest: PodSample | None = None

    def answer(self, tokens: float, spoil: str | None, now: float) -> PodSample | None:
        if spoil is not None:
            sample = spoiled_sample(self.name, spoil, self.newest, now)
            self.newest = sample if spoil == "restarted" and sample else self.newest
            return sample
        self.good = self.newest = self.truth(tokens, now)
        return self.good

    def truth(self, tokens: float, now: float) -> PodSample:
        return PodSample(self.name, "", now, metrics=serving(tokens, STEPS_AT_START + now))

    def fair_weight(self, now: float) -> float:
        """Its last known load, and once that is stale what keeps one replica."""
        if self.good is None or self.good.metrics is None or now - self.good.at >= STALE_AFTER:
            return TARGET * (1 - QUICK.scale_down.tolerance)
        return self.good.metrics.kv_used_tokens


def look(state: AutoscalerState, samples: Sequence[PodSample | None], now: float) -> Decision:
    pods = tuple(PodView(f"pod-{i}", "Ready") for i in range(len(samples)))
    seen = Observation(len(pods), pods, tuple(sample for sample in samples if sample is not None))
    return decide(state, seen, WATCHED, now)


@histories
@given(spoiled_histories())
def test_bad_data_never_shrinks_below_what_good_data_would(history: tuple[Moment, ...]) -> None:
    """A pod whose answers are spoiled weighs as its last good one, and once that is stale as one on target."""
    pods = [Pod(f"pod-{i}") for i in range(len(history[0].loads))]
    seen, true = AutoscalerState(), AutoscalerState()
    for i, moment in enumerate(history):
        now = 1000 + i * INTERVAL
        answers = zip(pods, moment.loads, moment.spoils, strict=True)
        with_spoils = look(seen, [pod.answer(tokens, spoil, now) for pod, tokens, spoil in answers], now)
        with_truth = look(true, [pod.truth(pod.fair_weight(now), now) for pod in pods], now)
        seen, true = with_spoils.state, with_truth.state
        assert with_spoils.recommended >= min(len(pods), with_truth.recommended)


@histories
@given(spoiled_histories(heavy_loads), st.integers(1, 60))
def test_nothing_shrinks_while_fewer_than_half_are_known(history: tuple[Moment, ...], outage: int) -> None:
    """However long the outage, and for a whole window after it."""
    num_pods = len(history[0].loads)
    service = Service(WATCHED, num_pods)
    for moment in history:
        service.look(*[serving(tokens, 0) for tokens in moment.loads])
    for i in range(outage):
        decision = service.look(*[None] * num_pods)
        if i * INTERVAL >= STALE_AFTER:
            assert decision.recommended == num_pods
    ended = service.now
    while service.now - ended < 30 and outage * INTERVAL > STALE_AFTER:
        assert service.look(*[engine()] * num_pods).recommended >= num_pods


@histories
@given(
    spoiled_histories(heavy_loads),
    st.lists(st.sampled_from(["Starting", "Unschedulable", "CrashLooping", "Draining"]), max_size=4),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(0, 20),
)
def test_bounds_hold_whatever_is_seen(
    history: tuple[Moment, ...], others: list[PodPhase], least: int, span: int, replicas: int
) -> None:
    spec = AutoscalingSpec(min_replicas=least, max_replicas=least + span, scale_down=QUICK.scale_down)
    service = Service(spec, replicas)
    for moment in history:
        answers = [
            "broken" if spoil else serving(tokens, 0) for tokens, spoil in zip(moment.loads, moment.spoils, strict=True)
        ]
        assert least <= service.look(*answers, others=others).desired <= least + span


@histories
@given(spoiled_histories(heavy_loads), st.lists(heavy_loads, min_size=5, max_size=5), st.integers(0, 20))
def test_more_demand_never_means_fewer_replicas(
    history: tuple[Moment, ...], extra: list[float], extra_waiting: int
) -> None:
    num_pods = len(history[0].loads)
    service = Service(replace(WATCHED, max_replicas=100), num_pods)
    for moment in history:
        service.look(*[serving(tokens, 0) for tokens in moment.loads])
    before, now = service.state, service.now
    last = history[-1].loads
    less = service.look(*[serving(tokens, 0) for tokens in last])
    service.state, service.now = before, now
    more = service.look(
        *[replace(serving(t + e, 0), num_waiting=extra_waiting) for t, e in zip(last, extra, strict=False)]
    )
    assert more.recommended >= less.recommended


@histories
@given(
    st.floats(0, 8 * TARGET),
    st.integers(1, 10),
    st.lists(st.floats(0.9, 1.1), min_size=10, max_size=80),
)
def test_a_constant_load_with_ten_percent_of_noise_never_flaps(base: float, start: int, noise: list[float]) -> None:
    service = Service(QUICK, start)
    numbers = [start]
    for factor in noise:
        tokens = base * factor / service.replicas
        numbers.append(service.look(*[serving(tokens, 0)] * service.replicas).desired)
    moves = [after - before for before, after in itertools.pairwise(numbers) if after != before]
    turns = sum((a > 0) != (b > 0) for a, b in itertools.pairwise(moves))
    assert turns <= 1, numbers


@histories
@given(spoiled_histories(heavy_loads), spoiled_histories(heavy_loads))
def test_after_a_restart_nothing_shrinks_for_a_whole_window(
    before: tuple[Moment, ...], after: tuple[Moment, ...]
) -> None:
    num_pods = len(after[0].loads)
    service = Service(WATCHED, num_pods)
    for moment in before:
        service.look(*[serving(tokens, 0) for tokens in moment.loads])
    service.restart()
    restarted = service.now
    for moment in after:
        decision = service.look(*[serving(tokens, 0) for tokens in moment.loads])
        if service.now - restarted < 30:
            assert decision.recommended >= num_pods


@histories
@given(spoiled_histories(heavy_loads), st.floats(1.2, 5))
def test_growth_never_waits_for_the_window_of_shrinking(history: tuple[Moment, ...], overload: float) -> None:
    num_pods = len(history[0].loads)
    spec = replace(WATCHED, max_replicas=100, scale_down=ScaleDownSpec(stabilization_seconds=3600))
    service = Service(spec, num_pods)
    for moment in history:
        service.look(*[serving(tokens, 0) for tokens in moment.loads])
    decision = service.look(*[serving(TARGET * overload, 0)] * num_pods)
    assert decision.recommended == math.ceil(num_pods * overload - 1e-6)


@histories
@given(spoiled_histories(heavy_loads))
def test_the_same_history_gives_the_same_decisions_also_through_json(history: tuple[Moment, ...]) -> None:
    num_pods = len(history[0].loads)
    one, other = Service(QUICK, num_pods), Service(QUICK, num_pods)
    for moment in history:
        answers = [None if s else serving(t, 0) for t, s in zip(moment.loads, moment.spoils, strict=True)]
        other.state = load_state(json.loads(json.dumps(store_state(other.state))))
        assert one.look(*answers) == other.look(*answers)


garbage = st.floats(allow_nan=True, allow_infinity=True)


@histories
@given(st.lists(st.builds(EngineMetrics, *[garbage] * 7, is_idle=st.booleans()), min_size=1, max_size=8))
def test_no_figure_whatever_makes_a_decision_fail(figures: list[EngineMetrics]) -> None:
    service = Service(QUICK, 3)
    for metrics in figures:
        assert 1 <= service.look(metrics, metrics, metrics, frozen=[0, 1, 2]).desired <= 10


@pytest.mark.parametrize("spoil", SPOILS)
def test_spoiled_answers_of_every_pod_hold_the_number_for_an_hour(spoil: str) -> None:
    pods = [Pod(f"pod-{i}") for i in range(3)]
    state = AutoscalerState()
    for i in range(720):
        now = 1000 + i * INTERVAL
        decision = look(state, [pod.answer(700, spoil if i > 10 else None, now) for pod in pods], now)
        state = decision.state
        assert decision.recommended == 3
