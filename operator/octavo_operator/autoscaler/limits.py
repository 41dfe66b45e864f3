"""What the number may be, whatever the load (rule 11: bounds, suspension, capacity)."""

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.types import Step
from octavo_operator.autoscaler.words import pods


def keep_minimum(number: int, facts: Facts) -> Step:
    least = facts.spec.min_replicas
    return Step("MinReplicas", number, max(number, least), f"minReplicas is {least}")


def keep_maximum(number: int, facts: Facts) -> Step:
    most = facts.spec.max_replicas
    return Step("MaxReplicas", number, min(number, most), f"maxReplicas is {most}")


def stop_if_suspended(number: int, facts: Facts) -> Step | None:
    return Step("Suspended", number, 0, "the service is suspended") if facts.spec.is_suspended else None


def wait_for_capacity(number: int, facts: Facts) -> Step | None:
    """Ask for no more while pods that were asked for fit nowhere. The minimum stands: it was asked for by the user."""
    num_stuck = facts.seen.num_in("Unschedulable")
    if num_stuck == 0:
        return None
    return _freeze("InsufficientCapacity", number, facts, f"{pods(num_stuck)} cannot be scheduled")


def wait_for_crash_loops(number: int, facts: Facts) -> Step | None:
    """Replace a pod that crash-loops beside many that serve; but more of what mostly crashes helps nobody."""
    num_crashing = facts.seen.num_in("CrashLooping")
    if num_crashing == 0 or num_crashing < facts.inputs.num_ready:
        return None
    why = f"{pods(num_crashing)} will not run, beside {pods(facts.inputs.num_ready, 'ready')}"
    return _freeze("CrashLoop", number, facts, why)


def _freeze(rule: str, number: int, facts: Facts, why: str) -> Step:
    return Step(rule, number, min(number, max(facts.replicas, facts.spec.min_replicas)), why)
