"""Which replicas leave, which come back, and when a Deployment shrinks. No I/O, no clock.

A replica leaves in two phases: first it is taken out of the Service and finishes its requests; only when it has none
left, or took longer than it may, its Deployment shrinks. If load returns meanwhile, it is put back instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo_operator.autoscaler.types import PodPhase
from octavo_operator.observed import Pod, Revision

# Whoever serves least goes first.
ORDER: tuple[PodPhase, ...] = ("Unschedulable", "CrashLooping", "Starting", "Ready")


@dataclass(frozen=True, slots=True)
class DrainStep:
    """What to do with one revision now.

    replicas    what its Deployment should ask for
    start       pods to take out of the Service
    cancel      draining pods to put back
    finished    draining pods that are done: the Deployment shrinks by as many
    timed_out   those of them that still had requests
    """

    replicas: int
    start: tuple[Pod, ...] = ()
    cancel: tuple[Pod, ...] = ()
    finished: tuple[Pod, ...] = ()
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
    finished = tuple(pod for pod in leaving if _is_finished(pod, num_requests, timeout_seconds, now))
    growth = max(missing - len(cancel), 0)
    unborn, victims = _shrink(revision, -missing, num_requests)
    return DrainStep(
        replicas=revision.replicas + growth - unborn - len(finished),
        start=victims,
        cancel=cancel,
        finished=finished,
        timed_out=tuple(pod for pod in finished if pod.has_started and num_requests.get(pod.name) != 0),
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


def _is_finished(pod: Pod, num_requests: Mapping[str, int], timeout_seconds: float, now: float) -> bool:
    if not pod.has_started or num_requests.get(pod.name) == 0:
        return True
    return now - (pod.draining_since or now) >= timeout_seconds


def choose_victims(pods: Sequence[Pod], count: int, num_requests: Mapping[str, int]) -> tuple[Pod, ...]:
    """Return the pods whose leaving costs least: unschedulable, not ready, fewest requests in flight, youngest."""

    def cost(pod: Pod) -> tuple[int, int, float]:
        return ORDER.index(pod.phase), num_requests.get(pod.name, 0), -pod.created_at

    return tuple(sorted(pods, key=cost)[:count])
