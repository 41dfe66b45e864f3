"""Writing the status: only when it changed, at most once a second, and figures that move with the load less often."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from pydantic import ValidationError

from octavo_operator.api.status import Status
from octavo_operator.cache import Cache
from octavo_operator.conditions import Situation
from octavo_operator.events import Recorder, warnings_between
from octavo_operator.kinds import INFERENCE_SERVICE, Object
from octavo_operator.kube import Kube
from octavo_operator.status import is_urgent, refuse, summarize, to_wire

URGENT_SECONDS = 1.0
FIGURES_SECONDS = 15.0


class Reporter:
    """Reports what happened to a service in its status and in Events."""

    def __init__(self, kube: Kube, cache: Cache, recorder: Recorder, clock: Callable[[], float] = time.time) -> None:
        self._kube = kube
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._written_at: dict[str, float] = {}

    async def report(self, situation: Situation) -> float | None:
        """Write the status if it is time to; return after how many seconds to try again if it is not."""
        service = situation.service
        body = self._cache.service(service.key)
        if body is None:
            return None
        previous = _previous(body)
        status = summarize(situation, previous, self._now())
        if to_wire(status) == to_wire(previous):
            return None
        wait = self._wait(service.key, is_urgent(status, previous))
        if wait > 0:
            return wait
        self._written_at[service.key] = self._clock()
        self._cache.put(INFERENCE_SERVICE, await self._write(body["metadata"], status))
        for event in warnings_between(previous, status):
            await self._recorder.record(service, event)
        return None

    async def report_unreadable(self, key: str, message: str) -> None:
        """Say that a resource cannot be read, and nothing else of it."""
        body = self._cache.service(key)
        if body is None:
            return
        metadata, previous = body["metadata"], _previous(body)
        status = refuse(previous, message, metadata.get("generation", 1), self._now())
        if to_wire(status) != to_wire(previous):
            written = await self._write(metadata, status)
            self._cache.put(INFERENCE_SERVICE, written)

    async def _write(self, metadata: Object, status: Status) -> Object:
        body = {
            "apiVersion": INFERENCE_SERVICE.api_version,
            "kind": INFERENCE_SERVICE.kind,
            # With the uid, a status is never written to a successor of the same name.
            "metadata": {field: metadata[field] for field in ("name", "namespace", "uid")},
            "status": to_wire(status),
        }
        return await self._kube.apply(body, subresource="status")

    def _wait(self, key: str, urgent: bool) -> float:
        since = self._clock() - self._written_at.get(key, 0.0)
        return (URGENT_SECONDS if urgent else FIGURES_SECONDS) - since

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def forget(self, key: str) -> None:
        """Forget a service that is gone."""
        self._written_at.pop(key, None)


def _previous(body: Object) -> Status:
    """Return the status as it is; one that another version of the CRD let through is written anew."""
    try:
        return Status.model_validate(body.get("status", {}))
    except ValidationError:
        return Status()
