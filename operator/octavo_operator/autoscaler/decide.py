"""The decision: how many replicas a service should have now, and why. No clock, no I/O."""

from collections.abc import Sequence
from dataclasses import replace

from octavo_operator.autoscaler import demand, limits, policies, recommendation, report, stabilization
from octavo_operator.autoscaler.facts import Facts, Rule
from octavo_operator.autoscaler.freshness import PodReading, read_pods
from octavo_operator.autoscaler.history import remember, resume
from octavo_operator.autoscaler.types import AutoscalerState, AutoscalingSpec, Decision, Inputs, Observation, Step

RULES: tuple[Rule, ...] = (
    recommendation.follow_load,
    recommendation.allow_for_missing,
    stabilization.stabilize_growth,
    stabilization.stabilize_shrinking,
    policies.limit_growth,
    policies.limit_shrinking,
    limits.keep_minimum,
    limits.keep_maximum,
    limits.stop_if_suspended,
    limits.wait_for_capacity,
    limits.wait_for_crash_loops,
)

STARTING_POINTS = ("Load", "NoReadyPods")
"""What `follow_load` says without holding anything back."""


def decide(state: AutoscalerState, seen: Observation, spec: AutoscalingSpec, now: float) -> Decision:
    """Replicas for `seen` under `spec`, given what earlier decisions left in `state`; `now` in Unix seconds.

    The same arguments give the same decision. The decision carries the state for the next call.
    """
    state = resume(state, seen, spec.metrics, now)
    readings = read_pods(state.pods, seen, spec.metrics, now)
    facts = _gather(readings, seen, spec, now, state)
    facts = replace(facts, state=remember(facts))
    steps = _follow(RULES, facts)
    return _conclude(steps, readings, facts)


def _gather(
    readings: Sequence[PodReading], seen: Observation, spec: AutoscalingSpec, now: float, state: AutoscalerState
) -> Facts:
    fresh = [reading.metrics for reading in readings if reading.metrics is not None]
    targets = demand.read_targets(fresh, spec.targets)
    inputs = Inputs(
        kv_cache_utilization=demand.kv_cache_utilization(fresh),
        demand_tokens=demand.demand_tokens(fresh),
        num_running=sum(m.num_running for m in fresh),
        num_waiting=demand.num_waiting(fresh),
        num_ready=seen.num_in("Ready"),
        num_fresh=len(fresh),
        num_missing=len(readings) - len(fresh),
        num_supply=demand.num_supply(seen),
    )
    return Facts(seen, spec, now, inputs, targets, state)


def _follow(rules: Sequence[Rule], facts: Facts) -> tuple[Step, ...]:
    """The first rule says what to start from; each later one is kept if it changed the number."""
    steps: list[Step] = []
    number = facts.replicas
    for rule in rules:
        step = rule(number, facts)
        if step is not None and (not steps or step.after != number):
            steps.append(step)
            number = step.after
    return tuple(steps)


def _conclude(steps: tuple[Step, ...], readings: Sequence[PodReading], facts: Facts) -> Decision:
    recommended = steps[-1].after
    is_acting = facts.spec.mode == "Auto" or facts.spec.is_suspended
    limited = tuple(step for step in steps if step.rule not in STARTING_POINTS)
    return Decision(
        desired=recommended if is_acting else facts.replicas,
        recommended=recommended,
        inputs=facts.inputs,
        targets=facts.targets,
        steps=steps,
        limited_by=tuple(step.rule for step in limited),
        reason=report.say(recommended, steps, facts),
        conditions=(
            report.metrics_available(readings, facts),
            report.scaling_active(facts),
            report.scaling_limited(limited),
        ),
        state=facts.state,
    )
