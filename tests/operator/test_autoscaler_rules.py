"""Demand, tolerance, supply and missing data: what one look asks for before windows and limits."""

from dataclasses import replace

import pytest

from octavo_operator.autoscaler.types import AutoscalingSpec, ScaleDownSpec, ScaleUpSpec, Targets
from tests.operator.autoscaler_fakes import IDLE, Answer, Service, condition, engine

AT_ONCE = AutoscalingSpec(
    max_replicas=100,
    scale_up=ScaleUpSpec(max_pods=100),
    scale_down=ScaleDownSpec(stabilization_seconds=0, max_pods=100),
)


def service(replicas: int = 1, **targets: float | None) -> Service:
    """One whose next look decides at once, because its pods were seen idle."""
    spec = replace(AT_ONCE, min_replicas=replicas, targets=replace(Targets(), **targets))
    seen = Service(spec, replicas)
    seen.look(*[IDLE] * replicas)
    seen.spec = replace(spec, min_replicas=1)
    return seen


# Demand


def test_queued_prompt_tokens_are_demand_so_that_a_full_cache_does_not_cap_growth() -> None:
    full = engine(used=1000, prompt_tokens=2000)
    assert service(waiting_per_replica=None).look(full).desired == 4


def test_capacity_is_that_of_the_median_engine() -> None:
    decision = service(3).look(engine(used=400), engine(used=400, kv_tokens=600), engine(used=400, kv_tokens=500))
    assert decision.targets[0].per_replica == 450


def test_each_target_that_is_set_is_read_and_the_largest_wins() -> None:
    decision = service(concurrency_per_replica=4.0).look(engine(used=300, waiting=6, running=10.0))
    assert [target.name for target in decision.targets] == [
        "kvCacheUtilization",
        "waitingPerReplica",
        "concurrencyPerReplica",
    ]
    assert [target.needed for target in decision.targets] == [pytest.approx(0.4), 3, 4]
    assert decision.desired == 4
    assert decision.reason == "Growing from 1 to 4: concurrencyPerReplica needs 4.00 replicas"


def test_at_least_one_target_must_be_set_and_each_above_zero() -> None:
    with pytest.raises(ValueError, match=r"autoscaling\.targets"):
        Targets(None, None, None)
    with pytest.raises(ValueError, match=r"autoscaling\.targets"):
        Targets(waiting_per_replica=0)


# Tolerance


@pytest.mark.parametrize(
    ("replicas", "used", "desired"),
    [
        (2, 825, 2),  # 2.2 replicas: 10 % over
        (2, 830, 3),
        (2, 500, 2),  # 1.33 replicas
        (2, 301, 2),  # 0.8 replicas: one alone would be within 20 % of its target
        (2, 300, 1),
        (3, 150, 1),
    ],
)
def test_tolerance_holds_the_number_in_each_direction(replicas: int, used: float, desired: int) -> None:
    assert service(replicas).look(*[engine(used=used)] * replicas).desired == desired


def test_the_last_digit_of_a_division_costs_no_replica() -> None:
    seen = service(7)
    seen.spec = replace(seen.spec, scale_down=replace(seen.spec.scale_down, tolerance=0.3))
    assert 7 * 450 / 750 / (1 - 0.3) > 6
    assert seen.look(*[engine(used=450)] * 7).desired == 6


def test_a_tolerance_of_everything_keeps_the_number_while_there_is_load() -> None:
    seen = service(2)
    seen.spec = replace(seen.spec, scale_down=replace(seen.spec.scale_down, tolerance=1.0))
    assert seen.look(engine(used=5), IDLE).desired == 2


def test_the_load_alone_never_asks_for_zero() -> None:
    assert service(3).look(IDLE, IDLE, IDLE).desired == 1


# Supply


def test_pods_that_start_are_supply_so_the_same_load_adds_no_more() -> None:
    seen = service()
    load = engine(used=900, prompt_tokens=900)
    assert seen.look(load).desired == 3
    for _ in range(10):
        assert seen.look(load, others=["Starting", "Starting"]).desired == 3


def test_replicas_that_have_no_pod_yet_are_supply() -> None:
    seen = service()
    load = engine(used=900, prompt_tokens=900)
    seen.look(load)
    assert seen.look(load).desired == 3


def test_a_crash_looping_pod_is_not_supply_and_is_made_up_for() -> None:
    seen = service(3)
    seen.replicas = 4
    assert seen.look(*[engine(used=975)] * 3, others=["CrashLooping"]).desired == 5


def test_when_as_many_pods_crash_loop_as_serve_no_more_are_added() -> None:
    seen = service()
    seen.replicas = 2
    decision = seen.look(engine(used=900, prompt_tokens=900), others=["CrashLooping"])
    assert (decision.desired, decision.limited_by) == (2, ("CrashLoop",))


def test_unschedulable_pods_freeze_growth_and_say_so() -> None:
    seen = service()
    seen.replicas = 2
    decision = seen.look(engine(used=900, prompt_tokens=1900), others=["Unschedulable"])
    assert (decision.desired, decision.limited_by) == (2, ("InsufficientCapacity",))
    assert decision.inputs.num_supply == 1
    assert "1 pod cannot be scheduled" in decision.reason


def test_unschedulable_pods_never_block_shrinking() -> None:
    seen = service()
    seen.replicas = 3
    assert seen.look(IDLE, others=["Unschedulable", "Unschedulable"]).desired == 1


def test_growth_goes_on_once_the_unschedulable_pod_has_come() -> None:
    seen = service()
    seen.replicas = 2
    load = engine(used=900, prompt_tokens=600)
    assert seen.look(load, others=["Unschedulable"]).desired == 2
    assert seen.look(load, IDLE).desired == 2
    assert seen.look(replace(load, waiting_prompt_tokens=1300), IDLE).desired == 3


# Missing data


@pytest.mark.parametrize("answers", [("refused", "refused", IDLE), ("refused", "refused", "refused")])
def test_fewer_than_half_fresh_holds(answers: tuple[Answer, ...]) -> None:
    seen = service(3)
    for _ in range(2):
        seen.spec = replace(seen.spec, min_replicas=3)
        seen.look(*answers)
    seen.spec = replace(seen.spec, min_replicas=1)
    decision = seen.look(*answers)
    assert decision.desired == 3
    assert decision.limited_by == ("MissingMetrics",)
    assert condition(decision, "MetricsAvailable") == ("False", "Unreachable")
    assert condition(decision, "ScalingActive") == ("False", "MissingMetrics")
    assert decision.reason.endswith("of 3 ready pods")


def test_when_shrinking_a_missing_pod_counts_as_on_target() -> None:
    seen = service(3)
    decision = seen.look(IDLE, engine(used=75), None, after=20)
    assert (decision.inputs.num_fresh, decision.inputs.num_missing) == (2, 1)
    assert (decision.desired, decision.limited_by) == (2, ("MissingMetrics",))


def test_when_growing_a_missing_pod_counts_as_empty() -> None:
    seen = service(3)
    loaded = engine(used=750, prompt_tokens=750)
    decision = seen.look(loaded, loaded, None, after=20)
    assert decision.inputs.num_missing == 1
    assert decision.targets[0].needed == 4
    assert decision.desired == 4


def test_one_failing_pod_does_not_stop_scaling() -> None:
    seen = service(4)
    loaded = engine(used=1000, prompt_tokens=1000)
    for _ in range(5):
        decision = seen.look(loaded, loaded, loaded, "connection refused")
    assert decision.desired == 8
    assert condition(decision, "MetricsAvailable") == ("True", "Partial")
    assert "pod-3: connection refused" in decision.conditions[0].message


def test_before_any_pod_is_ready_the_number_stays() -> None:
    seen = Service(AT_ONCE, replicas=4)
    decision = seen.look(others=["Starting"] * 4)
    assert (decision.desired, decision.limited_by) == (4, ())
    assert condition(decision, "MetricsAvailable") == ("Unknown", "NoReadyPods")
    assert decision.reason == "Keeping 4: no pod is ready"
