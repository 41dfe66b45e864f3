"""Asks draining replicas how many requests they still have. What is draining is read from the pods' annotations, so
that an operator that starts in the middle of a drain goes on with it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

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
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(self, period_seconds: float) -> None:
        """Poll for ever."""
        while True:
            await self.poll()
            await asyncio.sleep(period_seconds)

    async def poll(self) -> None:
        """Ask every draining replica once, and let its service be reconciled; put strays back to work."""
        pods = [(service, pod) for service in self._services.readable() for pod in self._pods(service)]
        draining = [(service, pod) for service, pod in pods if pod.is_draining]
        answers = await asyncio.gather(*(self._ask(service, pod) for service, pod in draining))
        self._in_flight = {
            pod.uid: count for (_, pod), count in zip(draining, answers, strict=True) if count is not None
        }
        for key in {service.key for service, _ in draining}:
            self._queue.add(key)
        await asyncio.gather(*(self._recall(service, pod) for service, pod in pods if is_stray(pod)))
        self._locks = {pod.uid: self._locks[pod.uid] for _, pod in pods if pod.uid in self._locks}

    def num_requests(self, pods: tuple[Pod, ...]) -> dict[str, int]:
        """Return requests in flight by name of pods that said so since they drain."""
        return {pod.name: self._in_flight[pod.uid] for pod in pods if pod.is_draining and pod.uid in self._in_flight}

    async def cancel(self, service: InferenceService, pod: Pod, put_back: Callable[[], Awaitable[None]]) -> None:
        """Let a replica take requests again, then put it back into the Service. Raises `EngineError`."""
        async with self._lock(pod):
            self._in_flight.pop(pod.uid, None)
            if pod.has_started:
                await self._admin.undrain(pod, self._token(service))
            await put_back()

    def _pods(self, service: InferenceService) -> tuple[Pod, ...]:
        return observe(self._cache, service.key).pods

    def _lock(self, pod: Pod) -> asyncio.Lock:
        """One of draining a replica and putting it back happens at a time: each looks at the other's outcome."""
        return self._locks.setdefault(pod.uid, asyncio.Lock())

    def _is_draining(self, service: InferenceService, pod: Pod) -> bool:
        """Whether the pod drains by what is known now."""
        return any(now.uid == pod.uid and now.is_draining for now in self._pods(service))

    async def _recall(self, service: InferenceService, pod: Pod) -> None:
        """An engine that drains though its pod should serve was told so by an operator that then failed."""
        async with self._lock(pod):
            if self._is_draining(service, pod):
                return
            try:
                if await self._admin.is_draining(pod, self._token(service)):
                    await self._admin.undrain(pod, self._token(service))
            except EngineError as error:
                logger.debug("%s: %s", service.key, error)

    async def _ask(self, service: InferenceService, pod: Pod) -> int | None:
        """Return the requests in flight; None when the engine was not asked yet or did not say.

        For a moment after it left the Service a replica still takes requests: not every node knows yet.
        """
        if not pod.has_started or self._clock() - (pod.draining_since or 0.0) < self._grace_seconds:
            return None
        async with self._lock(pod):
            if not self._is_draining(service, pod):
                return None
            try:
                return await self._admin.drain(pod, self._token(service))
            except EngineError as error:
                logger.warning("%s: %s", service.key, error)
                return None


def is_stray(pod: Pod) -> bool:
    """Tell whether a pod that should serve came up once and is not ready: its engine may still be draining."""
    return pod.is_serving and not pod.is_draining and pod.has_started and not pod.is_ready
