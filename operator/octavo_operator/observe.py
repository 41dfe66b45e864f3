"""From the objects that the cache holds to the values that the planners read."""

from datetime import datetime
from typing import Any

from octavo_operator import labels
from octavo_operator.cache import Cache
from octavo_operator.kinds import DEPLOYMENT, POD, Object
from octavo_operator.observed import Failure, Observed, Pod, Revision

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")

# From so many restarts on, a container that comes up again is still taken for one that keeps ending.
FEW_RESTARTS = 2


def observe(cache: Cache, key: str) -> Observed:
    """Return what is there of a service."""
    pods = cache.of_service(POD, key)
    alive = [read_pod(pod) for pod in pods if not _is_leaving(pod)]
    revisions = [read_revision(deployment, alive) for deployment in cache.of_service(DEPLOYMENT, key)]
    revisions.sort(key=lambda revision: (revision.created_at, revision.name))
    return Observed(tuple(revisions), num_terminating=sum("deletionTimestamp" in pod["metadata"] for pod in pods))


def read_revision(deployment: Object, pods: list[Pod]) -> Revision:
    """Read a Deployment of ours and its pods."""
    metadata = deployment["metadata"]
    name = metadata["labels"][labels.REVISION]
    conditions = _conditions(deployment)
    failure = conditions.get("ReplicaFailure", {})
    return Revision(
        name=name,
        replicas=deployment["spec"].get("replicas", 1),
        num_created=_num_created(deployment),
        created_at=seconds(metadata["creationTimestamp"]),
        pods=tuple(sorted((pod for pod in pods if pod.revision == name), key=lambda pod: (pod.created_at, pod.name))),
        failure=failure.get("message", "") if failure.get("status") == "True" else "",
        is_deleting="deletionTimestamp" in metadata,
    )


def _num_created(deployment: Object) -> int:
    """A Deployment that was not looked at yet is taken to have all its pods."""
    status = deployment.get("status", {})
    is_current = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)
    return int(status.get("replicas", 0) if is_current else deployment["spec"].get("replicas", 1))


def read_pod(pod: Object) -> Pod:
    """Read a pod of ours."""
    metadata, status = pod["metadata"], pod.get("status", {})
    pod_labels, annotations = metadata.get("labels", {}), metadata.get("annotations") or {}
    conditions = _conditions(pod)
    container = _engine_container(status)
    scheduled = conditions.get("PodScheduled", {})
    is_blocked = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        ip=status.get("podIP", ""),
        revision=pod_labels.get(labels.REVISION, ""),
        created_at=seconds(metadata["creationTimestamp"]),
        is_ready=conditions.get("Ready", {}).get("status") == "True",
        has_started=bool(container.get("started")),
        is_serving=pod_labels.get(labels.SERVING) == "true",
        draining_since=_optional_seconds(annotations.get(labels.DRAINING_SINCE)),
        drained_at=_optional_seconds(annotations.get(labels.DRAINED_AT)),
        blocked_since=seconds(scheduled.get("lastTransitionTime") or metadata["creationTimestamp"])
        if is_blocked
        else None,
        message=scheduled.get("message", "") if is_blocked else "",
        failure=_failure(container),
    )


def _failure(container: dict[str, Any]) -> Failure | None:
    waiting = container.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in IMAGE_REASONS:
        return Failure("ImageUnavailable", message or reason)
    if reason == "CreateContainerConfigError":
        return Failure("MissingSecret", message or reason)
    ended = container.get("lastState", {}).get("terminated", {})
    is_between_crashes = ended and container.get("restartCount", 0) >= FEW_RESTARTS and not container.get("started")
    if reason != "CrashLoopBackOff" and not is_between_crashes:
        return None
    if ended.get("reason") == "OOMKilled":
        return Failure("OutOfMemory", "the engine was killed at its memory limit")
    said = (ended.get("message") or "").strip()
    return Failure("CrashLoop", f"the engine ended with exit code {ended.get('exitCode', '?')}: {said or message}")


def _engine_container(status: dict[str, Any]) -> dict[str, Any]:
    return next((c for c in status.get("containerStatuses") or [] if c["name"] == "engine"), {})


def _conditions(body: Object) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in body.get("status", {}).get("conditions") or []}


def _is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def seconds(timestamp: str) -> float:
    """Return Unix seconds of a timestamp as Kubernetes writes it."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def _optional_seconds(timestamp: str | None) -> float | None:
    return seconds(timestamp) if timestamp else None
