"""How fast the number may move (rule 11, policies)."""

import math

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.types import Step


def limit_growth(number: int, facts: Facts) -> Step | None:
    """Within a period, grow by `maxPercent` or by `maxPods`, whichever is more."""
    if number <= facts.replicas:
        return None
    spec = facts.spec.scale_up
    start = max(0, facts.replicas - sum(move for move in _recent_moves(facts, spec.period_seconds) if move > 0))
    most = max(math.ceil(start * (1 + spec.max_percent / 100)), start + spec.max_pods, facts.replicas)
    why = f"at most {most} are allowed {spec.period_seconds:g} s after {start}"
    return Step("ScaleUpPolicy", number, min(number, most), why)


def limit_shrinking(number: int, facts: Facts) -> Step | None:
    """Within a period, shrink by `maxPods`."""
    if number >= facts.replicas:
        return None
    spec = facts.spec.scale_down
    start = facts.replicas - sum(move for move in _recent_moves(facts, spec.period_seconds) if move < 0)
    least = min(start - spec.max_pods, facts.replicas)
    why = f"at least {least} must stay {spec.period_seconds:g} s after {start}"
    return Step("ScaleDownPolicy", number, max(number, least), why)


def _recent_moves(facts: Facts, period: float) -> list[int]:
    return [int(change.value) for change in facts.state.changes if facts.now - change.at < period]
