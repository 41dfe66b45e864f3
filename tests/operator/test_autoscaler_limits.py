"""Bounds, suspension and modes, and how a decision explains itself."""

import json
from dataclasses import replace

import pytest

from octavo_operator.autoscaler import load_state, store_state
from octavo_operator.autoscaler.types import AutoscalingSpec, ScaleUpSpec
from tests.operator.autoscaler_fakes import IDLE, QUICK, Service, condition, engine

FULL = engine(used=1000, prompt_tokens=8000)


def test_the_maximum_holds_and_is_named() -> None:
    service = Service(replace(QUICK, max_replicas=3))
    service.look(IDLE)
    decision = service.look(FULL)
    assert decision.desired == 3
    assert decision.limited_by == ("ScaleUpPolicy", "MaxReplicas")
    assert condition(decision, "ScalingLimited") == ("True", "MaxReplicas")
    assert decision.reason == (
        "Growing from 1 to 3: kvCacheUtilization needs 12.00 replicas; "
        "at most 5 are allowed 15 s after 1; maxReplicas is 3"
    )


def test_the_minimum_holds_and_needs_no_metrics() -> None:
    decision = Service(replace(QUICK, min_replicas=3), replicas=0).look()
    assert (decision.desired, decision.limited_by) == (3, ("MinReplicas",))


def test_a_lowered_maximum_applies_at_once() -> None:
    service = Service(replace(QUICK, max_replicas=2), replicas=5)
    assert service.look(*[engine(used=900)] * 5).desired == 2


def test_the_minimum_is_asked_for_though_pods_cannot_be_scheduled() -> None:
    service = Service(replace(QUICK, min_replicas=3), replicas=2)
    assert service.look(IDLE, others=["Unschedulable"]).desired == 3


def test_a_suspended_service_has_no_replicas_and_comes_back_at_its_minimum() -> None:
    service = Service(replace(QUICK, is_suspended=True, min_replicas=2), replicas=3)
    decision = service.look(*[engine(used=900)] * 3)
    assert (decision.desired, decision.limited_by[-1]) == (0, "Suspended")
    assert condition(decision, "ScalingActive") == ("False", "Suspended")
    service.spec = replace(service.spec, is_suspended=False)
    assert service.look().desired == 2


def test_advisory_reports_and_does_not_act() -> None:
    service = Service(replace(QUICK, mode="Advisory"))
    service.look(IDLE)
    decision = service.look(FULL)
    assert (decision.desired, decision.recommended) == (1, 5)
    assert condition(decision, "ScalingActive") == ("False", "Advisory")


def test_external_leaves_the_number_to_others() -> None:
    service = Service(replace(QUICK, mode="External", max_replicas=3), replicas=7)
    decision = service.look(*[engine(used=900)] * 7)
    assert decision.desired == 7
    assert condition(decision, "ScalingActive") == ("False", "External")


def test_a_decision_carries_the_chain_from_inputs_to_number() -> None:
    service = Service(replace(QUICK, max_replicas=4, scale_up=ScaleUpSpec(max_pods=9)))
    service.look(IDLE)
    decision = service.look(engine(used=500, waiting=4, prompt_tokens=6000))
    assert decision.inputs.kv_cache_utilization == 0.5
    assert (decision.inputs.demand_tokens, decision.inputs.num_waiting, decision.inputs.num_running) == (6500, 4, 1)
    assert [(target.name, target.load, target.per_replica) for target in decision.targets] == [
        ("kvCacheUtilization", 6500, 750),
        ("waitingPerReplica", 4, 2),
    ]
    assert [(step.rule, step.before, step.after) for step in decision.steps] == [("Load", 1, 9), ("MaxReplicas", 9, 4)]


def test_steady_load_is_not_limited() -> None:
    service = Service()
    decision = service.look_for(10, engine(used=700))
    assert decision.reason == "Keeping 1: kvCacheUtilization needs 0.93 replicas"
    assert condition(decision, "ScalingLimited") == ("False", "WithinLimits")
    assert condition(decision, "ScalingActive") == ("True", "FollowingLoad")
    assert condition(decision, "MetricsAvailable") == ("True", "Fresh")


def test_many_missing_pods_are_counted_rather_than_listed() -> None:
    decision = Service(replicas=9).look(*["timed out"] * 9)
    assert decision.conditions[0].message == (
        "No fresh metrics from 9 of 9 ready pods: pod-0: timed out, pod-1: timed out, pod-2: timed out, and 6 more"
    )


def test_the_state_survives_json() -> None:
    service = Service(replicas=3)
    service.look_for(60, engine(used=900), "connection refused", engine(used=1, waiting=3))
    service.look(FULL, FULL, None)
    assert load_state(json.loads(json.dumps(store_state(service.state)))) == service.state


@pytest.mark.parametrize("plain", [None, [], {"pods": 3}, {"highs": [{"at": "yesterday", "value": 1}]}])
def test_a_damaged_state_is_refused_in_words(plain: object) -> None:
    with pytest.raises(ValueError, match="the stored state of the autoscaler cannot be read"):
        load_state(plain)


def test_the_defaults_are_those_of_the_resource() -> None:
    spec = AutoscalingSpec(max_replicas=2)
    assert (spec.targets.kv_cache_utilization, spec.targets.waiting_per_replica) == (0.75, 2)
    assert (spec.scale_up.max_pods, spec.scale_down.stabilization_seconds) == (4, 300)
