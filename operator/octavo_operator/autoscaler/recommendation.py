"""From need to a number of replicas, and what to do about pods that are not heard of (rules 4 to 7 and 10)."""

import math

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.types import ScaleDownSpec, Step
from octavo_operator.autoscaler.words import pods

ROUNDING = 1e-9
SMALLEST_SHARE = 1e-3
"""Of its target that a survivor may carry, should a spec tolerate everything."""


def replicas_to_grow_to(needed: float, facts: Facts) -> int:
    """The present number if the supply bears `needed` within tolerance; else enough, beside pods that crash-loop."""
    if needed <= facts.inputs.num_supply * (1 + facts.spec.scale_up.tolerance):
        return facts.replicas
    return max(facts.replicas, _ceil(needed) + facts.seen.num_in("CrashLooping"))


def replicas_to_stay(needed: float, num_missing: int, spec: ScaleDownSpec) -> float:
    """How many must stay for `needed` to leave them below their targets by the tolerance.

    The margin is what keeps the survivors of a decrease from asking for the replica back, so the tolerance is taken of
    the number after the decrease. A missing pod counts as exactly on target: it keeps one replica.
    """
    return needed / max(1 - spec.tolerance, SMALLEST_SHARE) + num_missing


def replicas_to_shrink_to(stay: float, facts: Facts) -> int:
    return min(facts.replicas, max(1, _ceil(stay)))


def follow_load(_: int, facts: Facts) -> Step:
    """The number for the load of the fresh pods, as if the others carried none. If too few are fresh, no change."""
    if facts.inputs.num_ready == 0:
        return Step("NoReadyPods", facts.replicas, facts.replicas, "no pod is ready")
    if facts.driver is None or facts.is_blind:
        why = f"fresh metrics from only {facts.inputs.num_fresh} of {pods(facts.inputs.num_ready, 'ready')}"
        return Step("MissingMetrics", facts.replicas, facts.replicas, why)
    needed = facts.driver.needed
    number = _within_tolerance(needed, facts)
    is_tolerated = number == facts.replicas != max(1, _ceil(needed))
    why = f"{facts.driver.name} needs {needed:.2f} replicas{', within tolerance' if is_tolerated else ''}"
    return Step("Load", facts.replicas, number, why)


def allow_for_missing(number: int, facts: Facts) -> Step | None:
    """Pods that are not heard of keep their replicas."""
    num_missing = facts.inputs.num_missing
    if facts.driver is None or number >= facts.replicas:
        return None
    stay = replicas_to_stay(facts.driver.needed, num_missing, facts.spec.scale_down)
    why = f"{pods(num_missing)} without fresh metrics may be on target"
    return Step("MissingMetrics", number, replicas_to_shrink_to(stay, facts), why)


def _within_tolerance(needed: float, facts: Facts) -> int:
    to_grow = replicas_to_grow_to(needed, facts)
    if to_grow > facts.replicas:
        return to_grow
    return replicas_to_shrink_to(replicas_to_stay(needed, 0, facts.spec.scale_down), facts)


def _ceil(value: float) -> int:
    """Rounded up, but not for the last digit of a division."""
    return math.ceil(value - ROUNDING)
