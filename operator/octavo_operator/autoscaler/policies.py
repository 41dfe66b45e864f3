"""How fast the number may move (rule 11, policies)."""

import math

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.types import Step
from octavo_operator.autoscaler.window import within


def limit_growth(number: int, facts: Facts) -> Step | None:
    """Within a period, grow by `maxPercent` or by `maxPods`, whichever is more."""
    if number <= facts.replicas:
        return None
    spec = facts.spec.scale_up
    recent = within(facts.state.changes, facts.now, spec.period_seconds)
    start = max(0, facts.replicas - int(sum(change.value for change in recent if change.value > 0)))
    most = max(math.ceil(start * (1 + spec.max_percent / 100)), start + spec.max_pods, facts.replicas)
    why = f"at most {most} are allowed {spec.period_seconds:g} s after {start}"
    return Step("ScaleUpPolicy", number, min(number, most), why)


def limit_shrinking(number: int, facts: Facts) -> Step | None:
    """Within a period, shrink by `maxPods`."""
    if number >= facts.replicas:
        return None
    spec = facts.spec.scale_down
    recent = within(facts.state.changes, facts.now, spec.period_seconds)
    start = facts.replicas - int(sum(change.value for change in recent if change.value < 0))
    least = min(start - spec.max_pods, facts.replicas)
    why = f"at least {least} must stay {spec.period_seconds:g} s after {start}"
    return Step("ScaleDownPolicy", number, max(number, least), why)
