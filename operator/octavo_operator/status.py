"""The status of a service, from the situation and the status before it. Pure."""

from collections.abc import Sequence
from typing import Any

from octavo_operator import labels
from octavo_operator.api.status import AutoscalingStatus, Revisions, ScalingDecision, Status
from octavo_operator.api.status import Condition as StatusCondition
from octavo_operator.autoscaler.types import Condition, Decision
from octavo_operator.conditions import Situation, conditions_of

MOST_HISTORY = 10
AUTOSCALER_CONDITIONS = ("MetricsAvailable", "ScalingActive", "ScalingLimited")


def summarize(situation: Situation, previous: Status, now: str) -> Status:
    """Return the status to report. `now` is an RFC 3339 time; conditions that did not change keep their own."""
    service, observed = situation.service, situation.observed
    return Status(
        observed_generation=service.generation,
        url=service.url,
        ready=f"{situation.num_ready}/{situation.desired}",
        replicas=len(observed.pods),
        ready_replicas=situation.num_ready,
        draining_replicas=observed.num_in("Draining"),
        unschedulable_replicas=observed.num_in("Unschedulable"),
        desired_replicas=situation.desired,
        selector=labels.selector(service.name),
        revisions=_revisions(situation),
        autoscaling=_autoscaling(situation, previous, now),
        conditions=[
            *_stamp(conditions_of(situation), previous.conditions, service.generation, now),
            *_kept(situation, previous),
        ],
    )


def _kept(situation: Situation, previous: Status) -> list[StatusCondition]:
    """Until the autoscaler has decided, after a start of the operator, what it said last stands."""
    if situation.decision is not None:
        return []
    return [condition for condition in previous.conditions if condition.type in AUTOSCALER_CONDITIONS]


def _revisions(situation: Situation) -> Revisions:
    """While a rollout runs, `current` is the revision that served before it."""
    target = situation.service.revision
    if situation.is_rolled_out:
        return Revisions(current=target)
    serving = [r.name for r in situation.observed.revisions if r.name != target and r.replicas > 0]
    return Revisions(current=serving[-1], updating=target) if serving else Revisions(updating=target)


def _autoscaling(situation: Situation, previous: Status, now: str) -> AutoscalingStatus | None:
    decision = situation.decision
    if decision is None:
        return previous.autoscaling
    inputs = decision.inputs
    seen = AutoscalingStatus(
        kv_cache_utilization=None if inputs.kv_cache_utilization is None else f"{inputs.kv_cache_utilization:.2f}",
        waiting=round(inputs.num_waiting) if inputs.num_fresh else None,
        running=round(inputs.num_running) if inputs.num_fresh else None,
        fresh_pods=inputs.num_fresh,
        ready_pods=inputs.num_ready,
    )
    if situation.service.spec.autoscaling is None:
        return seen
    decided = {
        "recommended": decision.recommended,
        "desired": decision.desired,
        "limited_by": list(decision.limited_by),
        "last_decision": decision.reason[:1024],
        "history": _history(situation.desired, decision, previous, now),
    }
    return seen.model_copy(update=decided)


def _history(desired: int, decision: Decision, previous: Status, now: str) -> list[ScalingDecision]:
    """Add to the history when the number changed since the last status."""
    history = previous.autoscaling.history if previous.autoscaling else []
    before = previous.desired_replicas
    if before is None or before == desired:
        return history
    change = ScalingDecision(time=now, from_replicas=before, to_replicas=desired, reason=decision.reason[:1024])
    return [*history, change][-MOST_HISTORY:]


def _stamp(
    conditions: Sequence[Condition], previous: Sequence[StatusCondition], generation: int, now: str
) -> list[StatusCondition]:
    before = {condition.type: condition for condition in previous}
    return [
        StatusCondition(
            type=condition.type,
            status=condition.status,
            reason=condition.reason,
            message=condition.message[:1024],
            last_transition_time=_transition_time(condition, before.get(condition.type), now),
            observed_generation=generation,
        )
        for condition in conditions
    ]


def _transition_time(condition: Condition, before: StatusCondition | None, now: str) -> str:
    return before.last_transition_time if before and before.status == condition.status else now


def refuse(previous: Status, message: str, generation: int, now: str) -> Status:
    """Return the status of a resource that cannot be read: everything else stays as it was."""
    conditions = [
        Condition("Ready", "False", "InvalidSpec", message),
        Condition("Accepted", "False", "InvalidSpec", message),
        Condition("Reconciling", "False", "Stalled", message),
        Condition("Stalled", "True", "InvalidSpec", message),
    ]
    told = {condition.type for condition in conditions}
    kept = [condition for condition in previous.conditions if condition.type not in told]
    stamped = _stamp(conditions, previous.conditions, generation, now)
    return previous.model_copy(update={"observed_generation": generation, "conditions": [*stamped, *kept]})


def is_urgent(status: Status, previous: Status) -> bool:
    """Tell whether more changed than the figures that move with the load, and the sentences that quote them."""
    return _without_figures(status) != _without_figures(previous)


def _without_figures(status: Status) -> dict[str, Any]:
    plain = status.model_dump(exclude={"autoscaling"}, exclude_none=True)
    plain["conditions"] = [(c["type"], c["status"], c["reason"]) for c in plain["conditions"]]
    return plain


def to_wire(status: Status) -> dict[str, Any]:
    """Return the status as the API server stores it."""
    return status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
