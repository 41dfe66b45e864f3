"""How many replicas a service should have. Pure."""

from octavo_operator.api.spec import Spec
from octavo_operator.autoscaler import types as autoscaler
from octavo_operator.autoscaler.types import Decision


def is_auto(spec: Spec) -> bool:
    """Tell whether the autoscaler acts on this service."""
    return spec.autoscaling is not None and spec.autoscaling.mode == "Auto"


def desired_replicas(spec: Spec, decision: Decision | None, last: int | None, num_active: int) -> int:
    """Return the number of replicas that the service should have now.

    Until the autoscaler has decided, after a start of the operator, what was desired last stays, else what there is.
    """
    if spec.suspend:
        return 0
    if spec.autoscaling is None or spec.autoscaling.mode != "Auto":
        return 1 if spec.replicas is None else spec.replicas
    wanted = decision.desired if decision else last or num_active
    return min(max(wanted, spec.autoscaling.min_replicas), spec.autoscaling.max_replicas)


def autoscaling_values(spec: Spec) -> autoscaler.AutoscalingSpec:
    """Return `spec.autoscaling` as the autoscaler's plain values; a service without it is only looked at."""
    auto = spec.autoscaling
    if auto is None:
        return autoscaler.AutoscalingSpec(max_replicas=1000, mode="External", is_suspended=spec.suspend)
    return autoscaler.AutoscalingSpec(
        max_replicas=auto.max_replicas,
        min_replicas=auto.min_replicas,
        mode=auto.mode,
        is_suspended=spec.suspend,
        targets=autoscaler.Targets(
            kv_cache_utilization=float(auto.targets.kv_cache_utilization),
            waiting_per_replica=float(auto.targets.waiting_per_replica),
            concurrency_per_replica=_optional(auto.targets.concurrency_per_replica),
        ),
        metrics=autoscaler.MetricsSpec(
            scrape_interval_seconds=float(auto.metrics.scrape_interval_seconds),
            stale_after_seconds=float(auto.metrics.stale_after_seconds),
        ),
        scale_up=autoscaler.ScaleUpSpec(
            tolerance=float(auto.scale_up.tolerance),
            stabilization_seconds=float(auto.scale_up.stabilization_seconds),
            max_percent=auto.scale_up.max_percent,
            max_pods=auto.scale_up.max_pods,
            period_seconds=float(auto.scale_up.period_seconds),
        ),
        scale_down=autoscaler.ScaleDownSpec(
            tolerance=float(auto.scale_down.tolerance),
            stabilization_seconds=float(auto.scale_down.stabilization_seconds),
            max_pods=auto.scale_down.max_pods,
            period_seconds=float(auto.scale_down.period_seconds),
        ),
    )


def _optional(value: int | None) -> float | None:
    return None if value is None else float(value)
