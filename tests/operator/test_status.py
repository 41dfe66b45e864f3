"""Conditions and status, from what is observed."""

from typing import Any

import pytest

from octavo_operator.api.status import Status
from octavo_operator.autoscaler.types import AutoscalerState, Condition, Decision, Inputs
from octavo_operator.conditions import Acceptance, Situation, conditions_of
from octavo_operator.events import warnings_between
from octavo_operator.observed import Observed, Revision
from octavo_operator.status import is_urgent, refuse, summarize, to_wire
from tests.operator.builders import crashing, draining, pod, revision, service, starting, unschedulable

NOW, LATER = "2027-01-01T00:00:00Z", "2027-01-01T00:01:00Z"
TARGET = service().revision


def situation(*pods: Any, desired: int = 1, old: Revision | None = None, failure: str = "", **fields: Any) -> Situation:
    """Return the situation of a service whose current revision has these pods."""
    spec = fields.pop("spec", {})
    current = revision(TARGET, *pods, failure=failure)
    observed = Observed((old, current) if old else (current,))
    return Situation(service(**spec), observed, desired, **fields)


def conditions(of: Situation) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in conditions_of(of)}


def ready(name: str = "a") -> Any:
    return pod(name, TARGET)


def decision(desired: int = 1, waiting: float = 3.0, **inputs: Any) -> Decision:
    figures: dict[str, Any] = {
        "kv_cache_utilization": 0.417,
        "demand_tokens": 0.0,
        "num_running": 2.0,
        "num_waiting": waiting,
        "num_ready": 1,
        "num_fresh": 1,
        "num_missing": 0,
        "num_supply": 1,
    }
    metrics = Condition("MetricsAvailable", "True", "Fresh", "Metrics of 1 ready pods are fresh")
    scaling = Condition("ScalingActive", "True", "FollowingLoad", "Replicas follow the load")
    return Decision(
        desired=desired,
        recommended=desired,
        inputs=Inputs(**figures | inputs),
        targets=(),
        steps=(),
        limited_by=("MaxReplicas",),
        reason=f"Growing to {desired}",
        conditions=(metrics, scaling),
        state=AutoscalerState(),
    )


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (situation(starting("a", TARGET)), "StartingUp"),
        (situation(), "StartingUp"),
        (situation(crashing("a", TARGET)), "CrashLoop"),
        (situation(spec={"suspend": True}, desired=0), "Suspended"),
        (situation(spec={"replicas": 0}, desired=0), "ScaledToZero"),
        (situation(draining("a", revision=TARGET)), "StartingUp"),
        (situation(ready(), acceptance=Acceptance("Conflict", "Service chat exists")), "Conflict"),
    ],
)
def test_a_service_that_does_not_serve_is_not_ready_and_says_why(of: Situation, reason: str) -> None:
    assert conditions(of)["Ready"] == ("False", reason)


def test_a_service_that_serves_is_ready_and_not_in_progress() -> None:
    seen = conditions(situation(ready()))
    assert seen["Ready"] == ("True", "Ready")
    assert seen["RolloutComplete"] == ("True", "Complete")
    assert seen["Reconciling"][0] == "False"
    assert seen["Stalled"][0] == "False"


def test_one_of_several_replicas_may_be_missing() -> None:
    assert conditions(situation(ready("a"), ready("b"), desired=3))["Ready"] == ("True", "Ready")
    assert conditions(situation(ready("a"), desired=3))["Ready"] == ("False", "StartingUp")


def test_growing_with_the_load_does_not_make_a_service_unready() -> None:
    auto = {"autoscaling": {"minReplicas": 1, "maxReplicas": 5}}
    seen = conditions(situation(ready(), *[starting(f"s{i}", TARGET) for i in range(4)], desired=5, spec=auto))
    assert seen["Ready"] == ("True", "Ready")
    assert seen["Reconciling"][0] == "False"


def test_an_old_revision_that_serves_keeps_the_service_ready_during_a_rollout() -> None:
    seen = conditions(situation(starting("b", TARGET), old=revision("old", pod("a", "old"))))
    assert seen["Ready"] == ("True", "Ready")
    assert seen["RolloutComplete"] == ("False", "Progressing")
    assert seen["Reconciling"] == ("True", "Progressing")


def test_a_new_revision_that_crashes_is_stalled_and_not_in_progress() -> None:
    seen = conditions(situation(crashing("b", TARGET), old=revision("old", pod("a", "old"))))
    assert seen["Ready"] == ("True", "Ready")
    assert seen["Stalled"] == ("True", "CrashLoop")
    assert seen["Reconciling"] == ("False", "Stalled")


def test_a_rollout_that_waits_for_capacity_says_so() -> None:
    seen = conditions(situation(unschedulable("b", revision=TARGET), old=revision("old", pod("a", "old"))))
    assert seen["RolloutComplete"] == ("False", "WaitingForCapacity")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "InsufficientAccelerator"),
        ("0/3 nodes are available: 3 Insufficient memory.", "InsufficientResources"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "NoMatchingNode"),
    ],
)
def test_missing_capacity_is_named(message: str, reason: str) -> None:
    seen = conditions(situation(unschedulable("a", revision=TARGET, message=message)))
    assert seen["CapacityAvailable"] == ("False", reason)


@pytest.mark.parametrize(
    ("message", "reason"),
    [("pods is forbidden: exceeded quota: team", "QuotaExceeded"), ("violates PodSecurity", "PodsRefused")],
)
def test_pods_that_may_not_be_made_are_reported(message: str, reason: str) -> None:
    assert conditions(situation(failure=message))["CapacityAvailable"] == ("False", reason)


def test_losing_metrics_does_not_make_a_service_unready() -> None:
    lost = Condition("MetricsAvailable", "False", "Unreachable", "nobody answers")
    blind = decision()
    object.__setattr__(blind, "conditions", (lost,))
    assert conditions(situation(ready(), decision=blind))["Ready"] == ("True", "Ready")


def test_scaling_conditions_are_only_of_services_that_scale() -> None:
    assert "ScalingActive" not in conditions(situation(ready(), decision=decision()))
    auto = {"autoscaling": {"maxReplicas": 5}}
    assert "ScalingActive" in conditions(situation(ready(), decision=decision(), spec=auto))


def test_what_the_autoscaler_said_last_stands_until_it_decides_again() -> None:
    auto = {"autoscaling": {"maxReplicas": 5}}
    before = summarize(situation(ready(), decision=decision(), spec=auto), Status(), NOW)
    restarted = summarize(situation(ready(), spec=auto), before, LATER)
    assert restarted == before


def test_the_status_counts_what_is_there() -> None:
    of = situation(ready("a"), draining("b", revision=TARGET), unschedulable("c", revision=TARGET), desired=2)
    wire = to_wire(summarize(of, Status(), NOW))
    assert wire["ready"] == "1/2"
    assert (wire["replicas"], wire["readyReplicas"]) == (3, 1)
    assert (wire["drainingReplicas"], wire["unschedulableReplicas"], wire["desiredReplicas"]) == (1, 1, 2)
    assert wire["url"] == "http://chat.team.svc/v1"
    assert wire["selector"] == "octavo.dev/service=chat"


def test_figures_are_for_reading() -> None:
    wire = to_wire(summarize(situation(ready(), decision=decision()), Status(), NOW))
    assert wire["autoscaling"] == {
        "kvCacheUtilization": "0.42",
        "waiting": 3,
        "running": 2,
        "freshPods": 1,
        "readyPods": 1,
    }


def test_a_change_of_the_number_enters_the_history_once() -> None:
    auto = {"autoscaling": {"maxReplicas": 5}}
    first = summarize(situation(ready(), decision=decision(1), spec=auto), Status(), NOW)
    second = summarize(situation(ready(), decision=decision(3), desired=3, spec=auto), first, LATER)
    third = summarize(situation(ready(), decision=decision(3), desired=3, spec=auto), second, LATER)
    assert third.autoscaling is not None
    assert [(c.from_replicas, c.to_replicas, c.reason) for c in third.autoscaling.history] == [(1, 3, "Growing to 3")]


def test_the_history_keeps_the_last_ten() -> None:
    auto = {"autoscaling": {"maxReplicas": 50}}
    status = Status()
    for number in range(1, 15):
        of = situation(ready(), decision=decision(number), desired=number, spec=auto)
        status = summarize(of, status, NOW)
    assert status.autoscaling is not None
    assert [change.to_replicas for change in status.autoscaling.history] == list(range(5, 15))


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = summarize(situation(starting("a", TARGET)), Status(), NOW)
    second = summarize(situation(ready()), first, LATER)
    times = {c.type: c.last_transition_time for c in second.conditions}
    assert (times["Ready"], times["Accepted"]) == (LATER, NOW)


def test_figures_alone_are_not_urgent() -> None:
    first = summarize(situation(ready(), decision=decision(waiting=1)), Status(), NOW)
    second = summarize(situation(ready(), decision=decision(waiting=9)), first, LATER)
    assert second != first
    assert not is_urgent(second, first)
    assert is_urgent(summarize(situation(starting("a", TARGET)), first, LATER), first)


def test_a_resource_that_cannot_be_read_keeps_the_rest_of_its_status() -> None:
    before = summarize(situation(ready()), Status(), NOW)
    refused = refuse(before, "spec.model.uri: missing", 2, LATER)
    assert refused.url == before.url
    assert {c.type: c.status for c in refused.conditions}["Accepted"] == "False"
    assert {c.type for c in refused.conditions} == {c.type for c in before.conditions}


def test_during_a_rollout_both_revisions_are_told() -> None:
    of = situation(starting("b", TARGET), old=revision("old", pod("a", "old")))
    assert to_wire(summarize(of, Status(), NOW))["revisions"] == {"current": "old", "updating": TARGET}
    assert to_wire(summarize(situation(ready()), Status(), NOW))["revisions"] == {"current": TARGET}


def test_each_new_reason_to_worry_makes_one_warning() -> None:
    before = summarize(situation(ready()), Status(), NOW)
    worse = summarize(situation(crashing("a", TARGET)), before, LATER)
    assert [(event.reason, event.type) for event in warnings_between(before, worse)] == [("CrashLoop", "Warning")]
    assert warnings_between(worse, worse) == []
