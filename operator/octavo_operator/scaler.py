"""One loop for all services: ask the engines for their load, and decide how many replicas each service should have."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from octavo_operator.autoscaler.decide import decide
from octavo_operator.autoscaler.types import AutoscalerState, Decision, Observation, PodSample
from octavo_operator.cache import Cache
from octavo_operator.desired import autoscaling_values, desired_replicas
from octavo_operator.engines import Resolver, pod_address
from octavo_operator.observe import observe
from octavo_operator.observed import Observed, Pod
from octavo_operator.queue import KeyedQueue
from octavo_operator.resource import InferenceService
from octavo_operator.scrape import ScrapeTarget
from octavo_operator.services import Services

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0


class Scrapes(Protocol):
    """What the loop needs of a scraper."""

    async def scrape(self, targets: Sequence[ScrapeTarget]) -> tuple[PodSample, ...]: ...


class Scaler:
    """Decides for every service at its own interval, and remembers what the next decision needs."""

    def __init__(
        self,
        cache: Cache,
        services: Services,
        queue: KeyedQueue,
        scraper: Scrapes,
        resolve: Resolver = pod_address,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._services = services
        self._queue = queue
        self._scraper = scraper
        self._resolve = resolve
        self._clock = clock
        self._due: dict[str, float] = {}
        self._states: dict[str, AutoscalerState] = {}
        self._samples: dict[str, dict[str, PodSample]] = {}
        self._decisions: dict[str, Decision] = {}

    async def run(self) -> None:
        """Tick for ever."""
        while True:
            await self.tick()
            await asyncio.sleep(TICK_SECONDS)

    async def tick(self) -> None:
        """Scrape the replicas of all services whose turn it is, all at once, and decide for each service."""
        self._forget_deleted()
        due = [(service, observe(self._cache, service.key)) for service in self._due_services()]
        targets = {pod.uid: self._target(pod) for _, observed in due for pod in observed.pods if pod.phase == "Ready"}
        samples = await self._scraper.scrape(list(targets.values()))
        taken = dict(zip(targets, samples, strict=True))
        for service, observed in due:
            try:
                self._decide(service, observed, taken)
            except Exception:  # a fault that one service meets must not stop the scaling of the others
                logger.exception("%s: no decision", service.key)

    def decision(self, key: str) -> Decision | None:
        """Return the last decision about a service."""
        return self._decisions.get(key)

    def desired(self, service: InferenceService, observed: Observed) -> int:
        """Return the number of replicas that a service should have now."""
        body = self._cache.service(service.key) or {}
        last = body.get("status", {}).get("desiredReplicas")
        return desired_replicas(service.spec, self._decisions.get(service.key), last, observed.num_active)

    def num_requests(self, key: str) -> dict[str, int]:
        """Return requests that run or wait by name of pod, as last heard."""
        samples = self._samples.get(key, {}).values()
        return {s.pod: round(s.metrics.num_running + s.metrics.num_waiting) for s in samples if s.metrics}

    def _due_services(self) -> list[InferenceService]:
        now = self._clock()
        due = [service for service in self._services.readable() if self._due.get(service.key, 0.0) <= now]
        for service in due:
            self._due[service.key] = now + autoscaling_values(service.spec).metrics.scrape_interval_seconds
        return due

    def _target(self, pod: Pod) -> ScrapeTarget:
        host, port = self._resolve(pod)
        return ScrapeTarget(pod.name, host, port)

    def _decide(self, service: InferenceService, observed: Observed, taken: dict[str, PodSample]) -> None:
        """A pod that did not answer keeps its last good sample, which grows stale."""
        key = service.key
        before = self._samples.get(key, {})
        ready = [pod for pod in observed.pods if pod.phase == "Ready"]
        samples = {pod.uid: taken.get(pod.uid) or before.get(pod.uid) for pod in ready}
        self._samples[key] = {uid: sample for uid, sample in samples.items() if sample}
        seen = Observation(
            replicas=self.desired(service, observed),
            pods=tuple(pod.view() for pod in observed.pods),
            samples=tuple(self._samples[key].values()),
        )
        state = self._states.get(key, AutoscalerState())
        decision = decide(state, seen, autoscaling_values(service.spec), self._clock())
        self._states[key] = decision.state
        self._announce(key, decision)

    def _announce(self, key: str, decision: Decision) -> None:
        """Let the service be reconciled if the decision tells anything new."""
        before = self._decisions.get(key)
        self._decisions[key] = decision
        if before is None or replace(before, state=decision.state) != decision:
            self._queue.add(key)

    def _forget_deleted(self) -> None:
        gone = self._due.keys() - set(self._cache.service_keys())
        for memory in (self._due, self._states, self._samples, self._decisions):
            for key in gone:
                memory.pop(key, None)
