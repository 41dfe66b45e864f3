"""The conditions of a service, each from what is observed. Pure."""

from dataclasses import dataclass

from octavo_operator.autoscaler.types import Condition, Decision
from octavo_operator.desired import is_auto
from octavo_operator.observed import Observed, Pod
from octavo_operator.resource import InferenceService
from octavo_operator.rollout import is_complete


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether the resource can be carried out: Valid, InvalidSpec, InvalidPodTemplate, Conflict or Forbidden."""

    reason: str = "Valid"
    message: str = "The resource is valid"

    @property
    def is_accepted(self) -> bool:
        return self.reason == "Valid"


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a status is made of."""

    service: InferenceService
    observed: Observed
    desired: int
    acceptance: Acceptance = Acceptance()
    decision: Decision | None = None

    @property
    def num_ready(self) -> int:
        return self.observed.num_in("Ready")

    @property
    def num_needed(self) -> int:
        """Ready replicas that make the service available: all but one of those that it always has, and at least one."""
        spec = self.service.spec
        always = spec.autoscaling.min_replicas if spec.autoscaling and is_auto(spec) else self.desired
        return max(1, min(always, self.desired) - 1)

    @property
    def is_available(self) -> bool:
        return self.desired > 0 and self.num_ready >= self.num_needed

    @property
    def is_rolled_out(self) -> bool:
        needed = self.num_needed if self.desired else 0
        return is_complete(self.service.revision, needed, self.observed.revisions)

    @property
    def failing(self) -> Pod | None:
        """The newest pod that does not come up."""
        failing = [pod for pod in self.observed.pods if pod.failure and not pod.is_ready]
        return max(failing, key=lambda pod: pod.created_at, default=None)

    @property
    def blocked(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.observed.pods if pod.blocked_since is not None)


def conditions_of(situation: Situation) -> list[Condition]:
    """Return every condition, `Ready` first and the autoscaler's last."""
    accepted, available = accepted_condition(situation), workload_available(situation)
    rollout, stalled = rollout_complete(situation), stalled_condition(situation)
    return [
        ready_condition(accepted, available),
        accepted,
        available,
        capacity_available(situation),
        rollout,
        reconciling_condition(situation, rollout, stalled),
        stalled,
        *autoscaling_conditions(situation),
    ]


def ready_condition(accepted: Condition, available: Condition) -> Condition:
    """Accepted and available; losing metrics does not make a service unready."""
    if accepted.status != "True":
        return Condition("Ready", "False", accepted.reason, accepted.message)
    if available.status != "True":
        return Condition("Ready", "False", available.reason, available.message)
    return Condition("Ready", "True", "Ready", available.message)


def accepted_condition(situation: Situation) -> Condition:
    acceptance = situation.acceptance
    return Condition("Accepted", "True" if acceptance.is_accepted else "False", acceptance.reason, acceptance.message)


def workload_available(situation: Situation) -> Condition:
    count = f"{situation.num_ready} of {situation.desired} replicas are ready"
    if situation.service.spec.suspend:
        return _unavailable("Suspended", "spec.suspend is set: no pods run")
    if situation.desired == 0:
        return _unavailable("ScaledToZero", "spec.replicas is 0: no pods run")
    if situation.is_available:
        return Condition("WorkloadAvailable", "True", "MinimumReplicasAvailable", count)
    if situation.failing and situation.failing.failure:
        failure = situation.failing.failure
        return _unavailable(failure.reason, f"{count}; pod {situation.failing.name}: {failure.message}")
    return _unavailable("StartingUp", count)


def _unavailable(reason: str, message: str) -> Condition:
    return Condition("WorkloadAvailable", "False", reason, message)


def capacity_available(situation: Situation) -> Condition:
    refused = next((revision.failure for revision in situation.observed.revisions if revision.failure), "")
    if refused:
        reason = "QuotaExceeded" if "exceeded quota" in refused else "PodsRefused"
        return Condition("CapacityAvailable", "False", reason, refused)
    blocked = situation.blocked
    if not blocked:
        return Condition("CapacityAvailable", "True", "Fits", "No replica waits for a node")
    resource = situation.service.spec.accelerator.resource_name
    message = f"{len(blocked)} replicas find no node: {blocked[0].message}"
    return Condition("CapacityAvailable", "False", _capacity_reason(blocked[0].message, resource), message)


def _capacity_reason(message: str, resource: str) -> str:
    """Name what the scheduler's sentence is about."""
    if f"Insufficient {resource}" in message:
        return "InsufficientAccelerator"
    if "Insufficient" in message:
        return "InsufficientResources"
    return "NoMatchingNode"


def rollout_complete(situation: Situation) -> Condition:
    if situation.is_rolled_out:
        return Condition("RolloutComplete", "True", "Complete", f"Revision {situation.service.revision} serves alone")
    blocked = [pod for pod in situation.blocked if pod.revision == situation.service.revision]
    if blocked:
        return Condition("RolloutComplete", "False", "WaitingForCapacity", blocked[0].message)
    message = f"Replicas of revision {situation.service.revision} are coming up"
    return Condition("RolloutComplete", "False", "Progressing", message)


def autoscaling_conditions(situation: Situation) -> list[Condition]:
    """What the autoscaler says of itself; of a service that has none, only whether its metrics come in."""
    conditions = situation.decision.conditions if situation.decision else ()
    has_autoscaler = situation.service.spec.autoscaling is not None
    return [condition for condition in conditions if has_autoscaler or condition.type == "MetricsAvailable"]


def stalled_condition(situation: Situation) -> Condition:
    """For kstatus: nothing will get better unless somebody acts."""
    if not situation.acceptance.is_accepted:
        return Condition("Stalled", "True", situation.acceptance.reason, situation.acceptance.message)
    failing = situation.failing
    if failing and failing.failure and failing.revision == situation.service.revision:
        return Condition("Stalled", "True", failing.failure.reason, failing.failure.message)
    return Condition("Stalled", "False", "Progressing", "Nothing stands in the way")


def reconciling_condition(situation: Situation, rollout: Condition, stalled: Condition) -> Condition:
    """For kstatus: the operator is still on its way to what the spec says."""
    if stalled.status == "True":
        return Condition("Reconciling", "False", "Stalled", stalled.message)
    if rollout.status != "True":
        return Condition("Reconciling", "True", rollout.reason, rollout.message)
    if situation.desired and not situation.is_available:
        return Condition("Reconciling", "True", "StartingUp", "Replicas are coming up")
    return Condition("Reconciling", "False", "Complete", "The spec is carried out")
