"""Asks draining replicas how many requests they still have. What is draining is read from the pods' annotations, so
that an operator that starts in the middle of a drain goes on with it."""

import asyncio
import logging
import time
from collections.abc import Callable

from octavo_operator.cache import Cache
from octavo_operator.engines import EngineAdmin
from octavo_operator.errors import EngineError
from octavo_operator.observe import observe
from octavo_operator.observed import Pod
from octavo_operator.queue import KeyedQueue
from octavo_operator.resource import InferenceService
from octavo_operator.services import Services

logger = logging.getLogger(__name__)

Token = Callable[[InferenceService], str]


class Drainer:
    """Keeps draining replicas drained, and knows how far they are."""

    def __init__(
        self,
        cache: Cache,
        services: Services,
        queue: KeyedQueue,
        admin: EngineAdmin,
        token: Token,
        grace_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._services = services
        self._queue = queue
        self._admin = admin
        self._token = token
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._in_flight: dict[str, int] = {}

    async def run(self, period_seconds: float) -> None:
        """Poll for ever."""
        while True:
            await self.poll()
            await asyncio.sleep(period_seconds)

    async def poll(self) -> None:
        """Ask every draining replica once, and let its service be reconciled."""
        draining = self._draining()
        answers = await asyncio.gather(*(self._ask(service, pod) for service, pod in draining))
        self._in_flight = {
            pod.uid: count for (_, pod), count in zip(draining, answers, strict=True) if count is not None
        }
        for key in {service.key for service, _ in draining}:
            self._queue.add(key)

    def num_requests(self, pods: tuple[Pod, ...]) -> dict[str, int]:
        """Return requests in flight by name of pods that said so since they drain."""
        return {pod.name: self._in_flight[pod.uid] for pod in pods if pod.is_draining and pod.uid in self._in_flight}

    async def cancel(self, service: InferenceService, pod: Pod) -> None:
        """Put a replica back to work. Raises `EngineError`."""
        self._in_flight.pop(pod.uid, None)
        if pod.has_started:
            await self._admin.undrain(pod, self._token(service))

    def _draining(self) -> list[tuple[InferenceService, Pod]]:
        return [
            (service, pod)
            for service in self._services.readable()
            for pod in observe(self._cache, service.key).pods
            if pod.is_draining
        ]

    async def _ask(self, service: InferenceService, pod: Pod) -> int | None:
        """Return the requests in flight; None when the engine was not asked yet or did not say.

        For a moment after it left the Service a replica still takes requests: not every node knows yet.
        """
        if not pod.has_started or self._clock() - (pod.draining_since or 0.0) < self._grace_seconds:
            return None
        try:
            return await self._admin.drain(pod, self._token(service))
        except EngineError as error:
            logger.warning("%s: %s", service.key, error)
            return None
