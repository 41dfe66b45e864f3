"""A decision in words: its sentence and its conditions."""

from collections import Counter
from collections.abc import Sequence

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.freshness import PodReading
from octavo_operator.autoscaler.types import Condition, ConditionStatus, ProblemKind, Step
from octavo_operator.autoscaler.words import pods

REASON_OF_PROBLEM: dict[ProblemKind, str] = {
    "Unreachable": "Unreachable",
    "Invalid": "Unreachable",
    "Frozen": "Frozen",
    "Restarted": "Stale",
    "Stale": "Stale",
}
MOST_PODS_NAMED = 3


def say(number: int, steps: Sequence[Step], facts: Facts) -> str:
    """One sentence, as `Growing from 1 to 2: waitingPerReplica needs 4.00 replicas; maxReplicas is 2`."""
    if number > facts.replicas:
        what = f"Growing from {facts.replicas} to {number}"
    elif number < facts.replicas:
        what = f"Shrinking from {facts.replicas} to {number}"
    else:
        what = f"Keeping {number}"
    return f"{what}: {'; '.join(step.why for step in steps)}"


def metrics_available(readings: Sequence[PodReading], facts: Facts) -> Condition:
    ready = [reading for reading in readings if reading.is_ready]
    missing = [reading for reading in ready if reading.metrics is None]
    if not ready:
        return Condition("MetricsAvailable", "Unknown", "NoReadyPods", "There is no ready pod to ask")
    if not missing:
        return Condition("MetricsAvailable", "True", "Fresh", f"Metrics of {pods(len(ready), 'ready')} are fresh")
    message = f"No fresh metrics from {len(missing)} of {pods(len(ready), 'ready')}: {_name_pods(missing)}"
    if facts.is_blind:
        return Condition("MetricsAvailable", "False", _commonest_reason(missing), message)
    return Condition("MetricsAvailable", "True", "Partial", message)


def scaling_active(facts: Facts) -> Condition:
    """Whether the number follows the load, as the HPA's condition of this name."""
    status: ConditionStatus = "False"
    if facts.spec.is_suspended:
        reason, message = "Suspended", "The service is suspended"
    elif facts.spec.mode == "External":
        reason, message = "External", "spec.replicas is set by others, through /scale"
    elif facts.spec.mode == "Advisory":
        reason, message = "Advisory", "Recommendations are reported and not acted on"
    elif facts.is_blind:
        reason, message = "MissingMetrics", "Too few ready pods with fresh metrics to decide on"
    else:
        status, reason, message = "True", "FollowingLoad", "Replicas follow the load"
    return Condition("ScalingActive", status, reason, message)


def scaling_limited(limits: Sequence[Step]) -> Condition:
    """The last limit is the one that shaped the number."""
    if not limits:
        return Condition("ScalingLimited", "False", "WithinLimits", "The number is what the load needs")
    message = "; ".join(f"{step.rule} made {step.before} {step.after}: {step.why}" for step in limits)
    return Condition("ScalingLimited", "True", limits[-1].rule, message)


def _name_pods(missing: Sequence[PodReading]) -> str:
    named = [f"{reading.pod}: {reading.problem.detail}" for reading in missing[:MOST_PODS_NAMED] if reading.problem]
    rest = len(missing) - len(named)
    return ", ".join(named) + (f", and {rest} more" if rest else "")


def _commonest_reason(missing: Sequence[PodReading]) -> str:
    reasons = Counter(REASON_OF_PROBLEM[reading.problem.kind] for reading in missing if reading.problem)
    return reasons.most_common(1)[0][0]
