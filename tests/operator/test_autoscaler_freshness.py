import math
from dataclasses import replace

import pytest

from octavo_operator.autoscaler import decide
from octavo_operator.autoscaler.types import (
    AutoscalerState,
    EngineMetrics,
    Observation,
    PodPhase,
    PodSample,
    PodView,
)
from tests.operator.autoscaler_fakes import IDLE, INTERVAL, QUICK, Service, condition, engine

BUSY = engine(used=300)


def test_an_engine_counts_from_its_first_sample() -> None:
    assert Service().look(BUSY).inputs.num_fresh == 1


def test_an_idle_engine_need_not_step() -> None:
    service = Service()
    assert service.look(IDLE).inputs.num_fresh == 1
    assert service.look(IDLE, frozen=[0]).inputs.num_fresh == 1


def test_a_lost_scrape_changes_nothing_until_the_last_good_one_is_stale() -> None:
    service = Service()
    service.look_for(10, BUSY)
    assert service.look("connection refused").inputs.num_fresh == 1
    assert service.look("connection refused").inputs.num_fresh == 1
    assert service.look("connection refused").inputs.num_fresh == 0


def test_a_frozen_engine_with_work_is_not_fresh_though_it_answers() -> None:
    service = Service()
    service.look_for(10, BUSY)
    still = replace(BUSY, steps_total=service.steps)
    for _ in range(2):
        assert service.look(still, frozen=[0]).inputs.num_fresh == 1
    decision = service.look(still, frozen=[0])
    assert decision.inputs.num_fresh == 0
    assert condition(decision, "MetricsAvailable") == ("False", "Frozen")
    assert "stands at 2 with work pending" in decision.conditions[0].message


def test_work_that_arrives_at_an_idle_engine_counts_before_its_first_step() -> None:
    service = Service()
    service.look(IDLE)
    burst = replace(engine(waiting=8), steps_total=service.steps)
    assert service.look(burst, frozen=[0]).inputs.num_waiting == 8


def test_a_counter_that_goes_backwards_is_a_restart_and_its_sample_does_not_count() -> None:
    service = Service()
    service.look_for(10, BUSY)
    restarted = replace(IDLE, steps_total=0)
    decision = service.look(restarted, frozen=[0])
    assert decision.inputs.demand_tokens == 300
    assert service.look(replace(restarted, steps_total=1), frozen=[0]).inputs.demand_tokens == 0


def test_a_sample_that_is_shown_again_is_old_and_not_a_frozen_engine() -> None:
    service = Service()
    service.look(BUSY)
    sample = service.state.pods[0].newest
    assert sample is not None
    for _ in range(4):
        service.now += INTERVAL
        seen = Observation(1, (PodView("pod-0", "Ready"),), (sample,))
        decision = decide(service.state, seen, service.spec, service.now)
        service.state = decision.state
    assert condition(decision, "MetricsAvailable") == ("False", "Stale")


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        (engine(used=math.nan), "kv_used_tokens is nan"),
        (engine(used=-1), "kv_used_tokens is -1"),
        (engine(waiting=math.inf), "num_waiting is inf"),
        (engine(used=1e18), "kv_used_tokens is 1e\\+18"),
        (engine(kv_tokens=0), "there are no KV tokens"),
        (engine(used=1001), "1001 of 1000 KV tokens are used"),
    ],
)
def test_an_impossible_figure_is_named_and_its_sample_does_not_count(metrics: EngineMetrics, problem: str) -> None:
    service = Service()
    service.look_for(20, metrics)
    decision = service.look(metrics)
    assert condition(decision, "MetricsAvailable") == ("False", "Unreachable")
    assert problem.replace("\\", "") in decision.conditions[0].message


def test_a_pod_without_any_sample_is_stale() -> None:
    assert condition(Service().look(None), "MetricsAvailable") == ("False", "Stale")


def test_a_sample_later_than_now_does_not_count() -> None:
    tomorrow = PodSample("pod-0", "10.0.0.1", 90_000, metrics=BUSY)
    seen = Observation(1, (PodView("pod-0", "Ready"),), (tomorrow,))
    assert decide(AutoscalerState(), seen, QUICK, 1_000).inputs.num_fresh == 0


def test_after_the_clock_was_set_back_new_samples_count_again() -> None:
    service = Service()
    service.look_for(10, BUSY)
    service.look(BUSY, after=-3600)
    assert service.look(BUSY).inputs.num_fresh == 1


def test_draining_pods_and_pods_that_are_gone_are_not_missing() -> None:
    service = Service(replicas=3)
    service.look_for(10, BUSY, BUSY, BUSY)
    decision = service.look(BUSY, BUSY, phases={1: "Draining"})
    assert (decision.inputs.num_fresh, decision.inputs.num_missing) == (1, 0)


@pytest.mark.parametrize("phase", ["Starting", "CrashLooping", "Unschedulable"])
def test_a_pod_that_was_ready_and_is_not_any_more_is_missing(phase: PodPhase) -> None:
    service = Service(replicas=2)
    service.look_for(10, BUSY, BUSY)
    decision = service.look(BUSY, None, phases={1: phase})
    assert (decision.inputs.num_ready, decision.inputs.num_fresh, decision.inputs.num_missing) == (1, 1, 1)


def test_a_pod_that_was_never_ready_is_not_missing() -> None:
    assert Service(replicas=2).look(BUSY, others=["Starting"]).inputs.num_missing == 0
