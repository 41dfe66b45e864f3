"""From watch events to keys in the queue. Kopf watches; what it says goes into the cache and wakes a reconcile."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from octavo_operator import labels
from octavo_operator.cache import Cache
from octavo_operator.errors import ApiError
from octavo_operator.kinds import INFERENCE_SERVICE, WATCHED, Kind
from octavo_operator.kube import Kube
from octavo_operator.queue import KeyedQueue

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
# One listing for all the events of one watch that began anew.
RELIST_SECONDS = 5.0
RETRY_SECONDS = 2.0
LONGEST_WITHOUT_WATCH_SECONDS = 60.0


class Watcher:
    """Keeps the cache true. Every change of a service, or of what it owns, puts the service's key into the queue."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        queue: KeyedQueue,
        namespaces: tuple[str, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._queue = queue
        self._namespaces: tuple[str | None, ...] = namespaces or (None,)
        self._due: dict[Kind, float] = {}
        self._clock = clock
        self._watched_at = clock()
        self.is_synced = False
        self.is_watching = threading.Event()

    def find_problem(self) -> str | None:
        """Return why the cache may be out of date, or None."""
        if not self.is_synced:
            return "the first listing has not succeeded yet"
        return None if self.is_watching.is_set() else "nothing is watched"

    def find_lasting_problem(self) -> str | None:
        """Return a problem that lasts so long that only a new process may help, or None. To be asked often."""
        if not self.is_synced or self.is_watching.is_set():
            self._watched_at = self._clock()
        seconds = self._clock() - self._watched_at
        return f"nothing was watched for {seconds:.0f} s" if seconds > LONGEST_WITHOUT_WATCH_SECONDS else None

    def on_event(self, kind: Kind, event: Any) -> None:
        """Take in one event. An event without a type is part of a listing: Kopf lost its watch and began anew.

        Objects that were deleted meanwhile are in no event, so the kind is listed again to find them.
        """
        body = dict(event["object"])
        forget = event["type"] == "DELETED"
        key = self._cache.remove(kind, body) if forget else self._cache.put(kind, body)
        if key is not None:
            self._queue.add(key)
        if event["type"] is None and self.is_synced:
            self._due.setdefault(kind, self._clock() + RELIST_SECONDS)

    async def sync(self) -> None:
        """List everything for the first time; patient with an API server or a CRD that is not there yet."""
        while not self.is_synced:
            try:
                await self.resync()
                self.is_synced = True
            except ApiError as error:
                logger.warning("Cannot list yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def run(self, period_seconds: float) -> None:
        """List again for ever: a kind whose watch began anew, and everything from time to time."""
        due_for_all = self._clock() + period_seconds
        while True:
            await asyncio.sleep(TICK_SECONDS)
            kinds = self._take_due()
            if self._clock() >= due_for_all:
                kinds, due_for_all = WATCHED, self._clock() + period_seconds
            try:
                await self._list(*kinds)
            except ApiError as error:
                logger.warning("Cannot list again: %s", error)
                self._due.update({kind: self._clock() + RELIST_SECONDS for kind in kinds})

    async def resync(self) -> None:
        """List every kind, and let whatever differs be reconciled."""
        await self._list(*WATCHED)

    async def _list(self, *kinds: Kind) -> None:
        for kind in kinds:
            selector = None if kind is INFERENCE_SERVICE else labels.OWNED
            for namespace in self._namespaces:
                listing = await self._kube.list_all(kind, namespace, selector)
                listed_at = int(listing["metadata"]["resourceVersion"])
                for key in self._cache.replace(kind, namespace, listing["items"], listed_at):
                    self._queue.add(key)

    def _take_due(self) -> tuple[Kind, ...]:
        due = tuple(kind for kind, at in self._due.items() if at <= self._clock())
        for kind in due:
            del self._due[kind]
        return due
