"""A change must have been right for a whole window (rules 9 and 12)."""

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.recommendation import replicas_to_grow_to, replicas_to_shrink_to
from octavo_operator.autoscaler.types import Step
from octavo_operator.autoscaler.window import extreme


def stabilize_growth(number: int, facts: Facts) -> Step | None:
    """Grow to no more than the least that the load asked for during the window of scaleUp."""
    window = facts.spec.scale_up.stabilization_seconds
    if number <= facts.replicas:
        return None
    if not facts.has_observed(window):
        return Step("ScaleUpStabilization", number, facts.replicas, _too_short(window))
    least = extreme(facts.state.lows, facts.now, window, default=0.0)
    why = f"the least need of the last {window:g} s was {least:.2f} replicas"
    return Step("ScaleUpStabilization", number, min(number, replicas_to_grow_to(least, facts)), why)


def stabilize_shrinking(number: int, facts: Facts) -> Step | None:
    """Shrink to no less than the most that had to stay during the window of scaleDown."""
    window = facts.spec.scale_down.stabilization_seconds
    if number >= facts.replicas:
        return None
    if not facts.has_observed(window):
        return Step("ScaleDownStabilization", number, facts.replicas, _too_short(window))
    most = extreme(facts.state.highs, facts.now, window, default=float(facts.replicas))
    why = f"{most:.2f} replicas had to stay at some time in the last {window:g} s"
    return Step("ScaleDownStabilization", number, max(number, replicas_to_shrink_to(most, facts)), why)


def _too_short(window: float) -> str:
    return f"the load is not known for the last {window:g} s yet"
