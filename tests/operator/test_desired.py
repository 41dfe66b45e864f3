"""How many replicas a service should have."""

from typing import Any

import pytest

from octavo_operator.api.spec import Spec
from octavo_operator.autoscaler.types import AutoscalerState, AutoscalingSpec, Decision, Inputs
from octavo_operator.desired import autoscaling_values, desired_replicas
from tests.operator.builders import service

AUTO = {"minReplicas": 2, "maxReplicas": 5}


def spec(**fields: Any) -> Spec:
    return service(**fields).spec


def decision(desired: int) -> Decision:
    inputs = Inputs(None, 0.0, 0.0, 0.0, num_ready=0, num_fresh=0, num_missing=0, num_supply=0)
    return Decision(desired, desired, inputs, (), (), (), "", (), AutoscalerState())


@pytest.mark.parametrize(
    ("fields", "replicas"),
    [
        ({}, 1),
        ({"replicas": 0}, 0),
        ({"replicas": 3}, 3),
        ({"replicas": 3, "suspend": True}, 0),
        ({"autoscaling": AUTO | {"mode": "Advisory"}, "replicas": 4}, 4),
        ({"autoscaling": AUTO | {"mode": "External"}}, 1),
    ],
)
def test_without_an_acting_autoscaler_the_spec_says_how_many(fields: dict[str, Any], replicas: int) -> None:
    assert desired_replicas(spec(**fields), decision(9), last=7, num_active=8) == replicas


@pytest.mark.parametrize(("wanted", "replicas"), [(1, 2), (3, 3), (9, 5)])
def test_a_decision_stays_within_the_limits(wanted: int, replicas: int) -> None:
    assert desired_replicas(spec(autoscaling=AUTO), decision(wanted), last=None, num_active=0) == replicas


@pytest.mark.parametrize(
    ("last", "num_active", "replicas"),
    [(4, 1, 4), (None, 3, 3), (None, 0, 2), (0, 0, 2)],
    ids=["last status", "what there is", "minimum", "resumed"],
)
def test_after_a_start_nothing_changes_until_there_is_a_decision(
    last: int | None, num_active: int, replicas: int
) -> None:
    assert desired_replicas(spec(autoscaling=AUTO), None, last, num_active) == replicas


def test_the_autoscaler_gets_every_field_of_the_spec() -> None:
    values = autoscaling_values(
        spec(
            autoscaling={
                "minReplicas": 2,
                "maxReplicas": 9,
                "targets": {"kvCacheUtilization": "0.6", "waitingPerReplica": 3, "concurrencyPerReplica": 7},
                "metrics": {"scrapeIntervalSeconds": 2, "staleAfterSeconds": 8},
                "scaleUp": {
                    "tolerance": "0.05",
                    "stabilizationSeconds": 1,
                    "maxPercent": 50,
                    "maxPods": 2,
                    "periodSeconds": 20,
                },
                "scaleDown": {"tolerance": "0.3", "stabilizationSeconds": 60, "maxPods": 3, "periodSeconds": 30},
            }
        )
    )
    assert (values.min_replicas, values.max_replicas, values.mode, values.is_suspended) == (2, 9, "Auto", False)
    targets, metrics = values.targets, values.metrics
    assert (targets.kv_cache_utilization, targets.waiting_per_replica, targets.concurrency_per_replica) == (0.6, 3, 7)
    assert (metrics.scrape_interval_seconds, metrics.stale_after_seconds) == (2, 8)
    up, down = values.scale_up, values.scale_down
    assert (up.tolerance, up.stabilization_seconds, up.max_percent, up.max_pods, up.period_seconds) == (
        0.05,
        1,
        50,
        2,
        20,
    )
    assert (down.tolerance, down.stabilization_seconds, down.max_pods, down.period_seconds) == (0.3, 60, 3, 30)


def test_the_defaults_of_the_resource_are_those_of_the_autoscaler() -> None:
    """Two models of the same values: they must not drift apart."""
    assert autoscaling_values(spec(autoscaling={"maxReplicas": 3})) == AutoscalingSpec(max_replicas=3)
