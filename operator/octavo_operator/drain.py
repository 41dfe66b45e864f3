"""Which replicas leave, which come back, and when a Deployment shrinks. No I/O, no clock.

A replica leaves in two phases: first it is taken out of the Service and finishes its requests; only when it has none
left, or took longer than it may, its Deployment shrinks. If load returns meanwhile, it is put back instead.

Which pod a shrinking ReplicaSet deletes is its own choice: not ready before ready, then by deletion cost. So a drained
pod is first given the lowest cost of all, and the Deployment shrinks when it is also seen not to be ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo_operator.autoscaler.types import PodPhase
from octavo_operator.observed import Pod, Revision

# Time for the ReplicaSet's controller to see the deletion cost of a drained pod.
SETTLE_SECONDS = 1.0
# The longest that a drained pod is waited for to become unready.
UNREADY_SECONDS = 30.0

# Whoever serves least goes first.
ORDER: tuple[PodPhase, ...] = ("Unschedulable", "CrashLooping", "Starting", "Ready")


@dataclass(frozen=True, slots=True)
class DrainStep:
    """What to do with one revision now.

    replicas    what its Deployment should ask for
    start       pods to take out of the Service
    cancel      draining pods to put back
    release     draining pods that are done, to be given the lowest deletion cost
    timed_out   those of them that still had requests
    """

    replicas: int
    start: tuple[Pod, ...] = ()
    cancel: tuple[Pod, ...] = ()
    release: tuple[Pod, ...] = ()
    timed_out: tuple[Pod, ...] = ()


def plan_drain(
    revision: Revision, wanted: int, num_requests: Mapping[str, int], timeout_seconds: float, now: float
) -> DrainStep:
    """Return the next step towards `wanted` serving replicas.

    `num_requests` are requests in flight by pod name, as last heard; a pod that is missing there was not heard of.
    """
    draining = revision.draining
    missing = wanted - revision.num_active
    cancel = draining[:missing] if missing > 0 else ()
    leaving = draining[len(cancel) :]
    release = tuple(
        pod for pod in leaving if pod.drained_at is None and _is_done(pod, num_requests, timeout_seconds, now)
    )
    num_gone = sum(_may_go(pod, now) for pod in leaving)
    growth = max(missing - len(cancel), 0)
    unborn, victims = _shrink(revision, -missing, num_requests)
    return DrainStep(
        replicas=revision.replicas + growth - unborn - num_gone,
        start=victims,
        cancel=cancel,
        release=release,
        timed_out=tuple(pod for pod in release if pod.has_started and num_requests.get(pod.name) != 0),
    )


def _shrink(revision: Revision, excess: int, num_requests: Mapping[str, int]) -> tuple[int, tuple[Pod, ...]]:
    """Return how many replicas go that have no pod yet, and which pods begin to drain.

    A pod that exists and is not known here may serve: it is not taken for missing, or a late watch would cut streams.
    """
    if excess <= 0:
        return 0, ()
    candidates = [pod for pod in revision.pods if not pod.is_draining]
    unborn = min(excess, max(revision.replicas - max(len(revision.pods), revision.num_created), 0))
    return unborn, choose_victims(candidates, excess - unborn, num_requests)


def _is_done(pod: Pod, num_requests: Mapping[str, int], timeout_seconds: float, now: float) -> bool:
    if not pod.has_started or num_requests.get(pod.name) == 0:
        return True
    return now - (pod.draining_since or now) >= timeout_seconds


def _may_go(pod: Pod, now: float) -> bool:
    """Tell whether a shrinking Deployment would delete this drained pod, rather than another."""
    if pod.drained_at is None:
        return False
    seconds = now - pod.drained_at
    return seconds >= SETTLE_SECONDS and (not pod.is_ready or seconds >= UNREADY_SECONDS)


def choose_victims(pods: Sequence[Pod], count: int, num_requests: Mapping[str, int]) -> tuple[Pod, ...]:
    """Return the pods whose leaving costs least: unschedulable, not ready, fewest requests in flight, youngest."""

    def cost(pod: Pod) -> tuple[int, int, float]:
        return ORDER.index(pod.phase), num_requests.get(pod.name, 0), -pod.created_at

    return tuple(sorted(pods, key=cost)[:count])
