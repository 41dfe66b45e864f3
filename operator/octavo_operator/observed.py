"""What is there of a service, as plain values for the planners."""

from dataclasses import dataclass
from typing import Literal

from octavo_operator.autoscaler.types import PodPhase, PodView

FailureReason = Literal["CrashLoop", "OutOfMemory", "ImageUnavailable", "MissingSecret"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod does not come up, in a word and in the cluster's own words."""

    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a service that nobody has deleted yet. Times are Unix seconds.

    has_started    the engine came up once in this container, so that it may hold streams
    is_serving     selected by the Service
    draining_since when the operator took it out of the Service; None while it serves
    drained_at     when it was found to have no requests left, or to have taken too long
    blocked_since  since when the scheduler finds no place for it, and why in `message`
    """

    name: str
    uid: str
    ip: str
    revision: str
    created_at: float
    is_ready: bool = False
    has_started: bool = False
    is_serving: bool = True
    draining_since: float | None = None
    drained_at: float | None = None
    blocked_since: float | None = None
    message: str = ""
    failure: Failure | None = None

    @property
    def is_draining(self) -> bool:
        return self.draining_since is not None

    @property
    def phase(self) -> PodPhase:
        if self.is_draining:
            return "Draining"
        if self.blocked_since is not None:
            return "Unschedulable"
        if self.failure is not None:
            return "CrashLooping"
        return "Ready" if self.is_ready and self.is_serving else "Starting"

    def view(self) -> PodView:
        """Return the pod as the autoscaler sees it."""
        return PodView(self.name, self.phase, self.revision)


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision's Deployment and its pods.

    `replicas` is what the Deployment asks for, draining pods included; `num_created` how many pods it says it has,
    which may be more than are known yet.
    """

    name: str
    replicas: int
    created_at: float = 0.0
    pods: tuple[Pod, ...] = ()
    failure: str = ""
    is_deleting: bool = False
    num_created: int = 0

    def pods_in(self, phase: PodPhase) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.phase == phase)

    @property
    def num_ready(self) -> int:
        return len(self.pods_in("Ready"))

    @property
    def draining(self) -> tuple[Pod, ...]:
        """Draining pods that the Deployment still asks for, the one that began last first, drained ones at the end.

        When there are more pods than the Deployment wants, the surplus is about to be deleted: those that are drained,
        for their deletion cost is lowest and they are not ready.
        """
        surplus = max(len(self.pods) - self.replicas, 0)
        pods = sorted(self.pods_in("Draining"), key=lambda pod: (pod.drained_at or 0.0, -(pod.draining_since or 0.0)))
        return tuple(pods[: max(len(pods) - surplus, 0)])

    @property
    def num_active(self) -> int:
        """Replicas that serve or are on their way to."""
        return self.replicas - len(self.draining)


@dataclass(frozen=True, slots=True)
class Observed:
    """All revisions of a service, the oldest first."""

    revisions: tuple[Revision, ...] = ()
    num_terminating: int = 0

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for revision in self.revisions for pod in revision.pods)

    def revision(self, name: str) -> Revision | None:
        return next((revision for revision in self.revisions if revision.name == name), None)

    def num_in(self, phase: PodPhase) -> int:
        return sum(pod.phase == phase for pod in self.pods)

    @property
    def num_active(self) -> int:
        return sum(revision.num_active for revision in self.revisions)
