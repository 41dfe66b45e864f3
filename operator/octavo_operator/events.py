"""Kubernetes Events about a service: the same reason and message make one Event with a count."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from octavo_operator.api.status import Status
from octavo_operator.errors import AlreadyExists, ApiError
from octavo_operator.kinds import EVENT, INFERENCE_SERVICE, Object
from octavo_operator.kube import Kube
from octavo_operator.resource import InferenceService
from octavo_operator.revision import digest

logger = logging.getLogger(__name__)

FOLD_SECONDS = 60.0
MOST_REMEMBERED = 10_000

WARNINGS = {
    "Accepted": {"InvalidSpec", "InvalidPodTemplate", "Conflict", "Forbidden"},
    "CapacityAvailable": {
        "InsufficientAccelerator",
        "InsufficientResources",
        "NoMatchingNode",
        "QuotaExceeded",
        "PodsRefused",
    },
    "WorkloadAvailable": {"CrashLoop", "OutOfMemory", "ImageUnavailable", "MissingSecret"},
    "MetricsAvailable": {"Stale", "Frozen", "Unreachable"},
}
WARNING_REASONS = {
    "Accepted": "InvalidSpec",
    "CapacityAvailable": "InsufficientCapacity",
    "WorkloadAvailable": "CrashLoop",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a service."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def warnings_between(previous: Status, status: Status) -> list[Event]:
    """Return a warning for each condition that newly has a reason to worry about."""
    before = {condition.type: condition.reason for condition in previous.conditions}
    return [
        Event("Warning", WARNING_REASONS.get(now.type, f"Metrics{now.reason}"), now.message)
        for now in status.conditions
        if now.reason in WARNINGS.get(now.type, ()) and before.get(now.type) != now.reason
    ]


@dataclass(slots=True)
class _Posted:
    count: int
    at: float


class Recorder:
    """Posts Events. An Event that cannot be posted is logged: it must not keep a service from being reconciled."""

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.time) -> None:
        self._kube = kube
        self._clock = clock
        self._posted: dict[str, _Posted] = {}

    async def record(self, service: InferenceService, event: Event) -> None:
        """Post an event, or count it when the same was posted before."""
        name = f"{service.name}.{digest([service.uid, event.reason, event.message])}"
        posted = self._posted.setdefault(f"{service.namespace}/{name}", _Posted(0, 0.0))
        posted.count += 1
        logger.info("%s: %s: %s", service.key, event.reason, event.message)
        if self._clock() - posted.at < FOLD_SECONDS:
            return
        posted.at = self._clock()
        try:
            await self._post(service, event, name, posted)
        except ApiError as error:
            logger.warning("Event %s of %s was not posted: %s", event.reason, service.key, error)
        if len(self._posted) > MOST_REMEMBERED:
            self._posted.clear()

    async def _post(self, service: InferenceService, event: Event, name: str, posted: _Posted) -> None:
        now = datetime.fromtimestamp(posted.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if posted.count > 1:
            await self._kube.merge(EVENT, service.namespace, name, {"count": posted.count, "lastTimestamp": now})
            return
        try:
            await self._kube.create(_body(service, event, name, now))
        except AlreadyExists:
            known = await self._kube.merge(EVENT, service.namespace, name, {"lastTimestamp": now})
            posted.count = known.get("count", 1) + 1
            await self._kube.merge(EVENT, service.namespace, name, {"count": posted.count, "lastTimestamp": now})


def _body(service: InferenceService, event: Event, name: str, now: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": service.namespace},
        "involvedObject": {
            "apiVersion": INFERENCE_SERVICE.api_version,
            "kind": INFERENCE_SERVICE.kind,
            "namespace": service.namespace,
            "name": service.name,
            "uid": service.uid,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1024],
        "source": {"component": "octavo-operator"},
        "reportingComponent": "octavo-operator",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
