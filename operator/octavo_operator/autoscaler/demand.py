"""What the load asks for, in replicas (rules 2, 3 and 4)."""

from collections.abc import Sequence
from statistics import median

from octavo_operator.autoscaler.types import EngineMetrics, Observation, TargetReading, Targets


def demand_tokens(metrics: Sequence[EngineMetrics]) -> float:
    """KV tokens in use and prompt tokens still queued. KV use alone cannot pass what exists, so it would cap growth."""
    return sum(m.kv_used_tokens + m.waiting_prompt_tokens for m in metrics)


def capacity_tokens(metrics: Sequence[EngineMetrics], utilization: float) -> float:
    """KV tokens that one replica should carry, by the median engine. `metrics` must not be empty."""
    return median(m.kv_total_tokens for m in metrics) * utilization


def kv_cache_utilization(metrics: Sequence[EngineMetrics]) -> float | None:
    """KV tokens used over those there are, 0 to 1."""
    total = sum(m.kv_total_tokens for m in metrics)
    return sum(m.kv_used_tokens for m in metrics) / total if total else None


def num_waiting(metrics: Sequence[EngineMetrics]) -> float:
    return sum(m.num_waiting for m in metrics)


def num_in_engine(metrics: Sequence[EngineMetrics]) -> float:
    return sum(m.num_running + m.num_waiting + m.num_swapped for m in metrics)


def read_targets(metrics: Sequence[EngineMetrics], targets: Targets) -> tuple[TargetReading, ...]:
    """Each target that is set, over the fresh engines; nothing if there are none."""
    if not metrics:
        return ()
    readings = []
    if targets.kv_cache_utilization is not None:
        capacity = capacity_tokens(metrics, targets.kv_cache_utilization)
        readings.append(_reading("kvCacheUtilization", demand_tokens(metrics), capacity))
    if targets.waiting_per_replica is not None:
        readings.append(_reading("waitingPerReplica", num_waiting(metrics), targets.waiting_per_replica))
    if targets.concurrency_per_replica is not None:
        readings.append(_reading("concurrencyPerReplica", num_in_engine(metrics), targets.concurrency_per_replica))
    return tuple(readings)


def num_supply(seen: Observation) -> int:
    """Replicas that serve or will soon (rule 6). One that was asked for and has no pod yet is on its way."""
    coming = seen.replicas - seen.num_in("Unschedulable") - seen.num_in("CrashLooping")
    return max(coming, seen.num_in("Ready") + seen.num_in("Starting"))


def _reading(name: str, load: float, per_replica: float) -> TargetReading:
    return TargetReading(name, load, per_replica, load / per_replica)
