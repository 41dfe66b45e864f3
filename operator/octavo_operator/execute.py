"""Carrying out rollouts and drains: the planners' steps, revision by revision."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from octavo_operator import labels, metrics
from octavo_operator.apply import Applier
from octavo_operator.cache import Cache
from octavo_operator.drain import DrainStep, plan_drain
from octavo_operator.drainer import Drainer
from octavo_operator.errors import EngineError
from octavo_operator.events import Event, Recorder
from octavo_operator.kinds import DEPLOYMENT, Object
from octavo_operator.observed import Observed, Pod, Revision
from octavo_operator.render.deployment import deployment_name, render_deployment
from octavo_operator.resource import InferenceService
from octavo_operator.rollout import PATIENCE_SECONDS, share_replicas
from octavo_operator.scaler import Scaler
from octavo_operator.settings import Settings

logger = logging.getLogger(__name__)

LOW_COST, LOWEST_COST = "-1000", "-2000"
SERVING_ANNOTATIONS = dict.fromkeys((labels.DRAINING_SINCE, labels.DRAINED_AT, labels.DELETION_COST))


class Executor:
    """Moves replicas between the revisions of a service."""

    def __init__(
        self,
        cache: Cache,
        applier: Applier,
        drainer: Drainer,
        scaler: Scaler,
        recorder: Recorder,
        settings: Settings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._applier = applier
        self._drainer = drainer
        self._scaler = scaler
        self._recorder = recorder
        self._settings = settings
        self._clock = clock

    async def advance(self, service: InferenceService, observed: Observed, desired: int) -> float | None:
        """Take the next step. Returns after how many seconds to look again, events or not."""
        target, now = service.revision, self._clock()
        shares = share_replicas(target, desired, observed.revisions, now)
        if observed.revision(target) is None and shares[target] > 0:
            await self._create(service, shares[target])
        for revision in observed.revisions:
            if not revision.is_deleting:
                await self._step(service, revision, shares.get(revision.name, 0))
        is_waiting = any(pod.blocked_since is not None for pod in observed.pods)
        return PATIENCE_SECONDS if is_waiting else None

    async def _create(self, service: InferenceService, replicas: int) -> None:
        await self._applier.create_deployment(service, render_deployment(service, self._settings), replicas)
        message = f"Created revision {service.revision} with {_count(replicas)}"
        await self._recorder.record(service, Event("Normal", "RevisionCreated", message))

    async def _step(self, service: InferenceService, revision: Revision, share: int) -> None:
        deployment = self._cache.get(DEPLOYMENT, service.key, deployment_name(service, revision.name))
        if deployment is None:
            return
        if revision.name == service.revision:
            await self._repair(service, deployment)
        elif revision.replicas == 0 and not revision.pods:
            await self._applier.delete_deployment(deployment)
            return
        step = plan_drain(
            revision,
            share,
            self._num_requests(service, revision),
            service.spec.engine.drain_timeout_seconds,
            self._clock(),
        )
        await self._carry_out(service, revision, deployment, step)

    async def _repair(self, service: InferenceService, deployment: Object) -> None:
        """Undo drift; but a Deployment that an older operator rendered stays as it is until its spec changes."""
        desired = render_deployment(service, self._settings)
        if _template_hash(deployment) == _template_hash(desired):
            await self._applier.ensure(service, desired)

    async def _carry_out(
        self, service: InferenceService, revision: Revision, deployment: Object, step: DrainStep
    ) -> None:
        for pod in step.start:
            await self._start_drain(service, pod)
        num_lost = 0
        for pod in step.cancel:
            num_lost += not await self._cancel_drain(service, pod)
        for pod in step.release:
            await self._release(service, pod, pod in step.timed_out)
        replicas = step.replicas + num_lost
        if replicas != revision.replicas:
            await self._applier.set_replicas(deployment, replicas)
            word = "ScaledUp" if replicas > revision.replicas else "ScaledDown"
            message = f"Revision {revision.name} has {_count(replicas)}, was {revision.replicas}"
            await self._recorder.record(service, Event("Normal", word, message))

    async def _start_drain(self, service: InferenceService, pod: Pod) -> None:
        await self._patch_pod(service, pod, None, {labels.DRAINING_SINCE: self._now(), labels.DELETION_COST: LOW_COST})
        message = f"Replica {pod.name} takes no new requests and finishes those it has"
        await self._recorder.record(service, Event("Normal", "DrainStarted", message))

    async def _cancel_drain(self, service: InferenceService, pod: Pod) -> bool:
        """Put a replica back. Returns whether that worked; one that does not answer goes on draining."""
        try:
            await self._drainer.cancel(service, pod, lambda: self._patch_pod(service, pod, "true", SERVING_ANNOTATIONS))
        except EngineError as error:
            logger.warning("%s: %s is replaced instead of put back: %s", service.key, pod.name, error)
            return False
        metrics.DRAINS.labels("cancelled").inc()
        await self._recorder.record(service, Event("Normal", "DrainCancelled", f"Replica {pod.name} serves again"))
        return True

    async def _release(self, service: InferenceService, pod: Pod, is_timed_out: bool) -> None:
        """Let the ReplicaSet delete this pod before any other."""
        await self._patch_pod(service, pod, None, {labels.DRAINED_AT: self._now(), labels.DELETION_COST: LOWEST_COST})
        if is_timed_out:
            metrics.DRAINS.labels("timed_out").inc()
            timeout = service.spec.engine.drain_timeout_seconds
            message = f"Replica {pod.name} still has requests after engine.drainTimeoutSeconds, which is {timeout}"
            await self._recorder.record(service, Event("Warning", "DrainTimeout", message))
        elif pod.has_started:
            metrics.DRAINS.labels("completed").inc()
            message = f"Replica {pod.name} has no requests left"
            await self._recorder.record(service, Event("Normal", "DrainCompleted", message))

    async def _patch_pod(
        self, service: InferenceService, pod: Pod, serving: str | None, annotations: dict[str, str | None]
    ) -> None:
        patch = {"metadata": {"uid": pod.uid, "labels": {labels.SERVING: serving}, "annotations": annotations}}
        await self._applier.patch_pod(service.namespace, pod.name, patch)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat()

    def _num_requests(self, service: InferenceService, revision: Revision) -> dict[str, int]:
        """What serving replicas said to the scraper, and draining ones to the drainer since they drain."""
        serving = {pod.name for pod in revision.pods if not pod.is_draining}
        scraped = {name: n for name, n in self._scaler.num_requests(service.key).items() if name in serving}
        return scraped | self._drainer.num_requests(revision.pods)


def _template_hash(deployment: Object) -> str:
    annotations = deployment["metadata"].get("annotations") or {}
    return str(annotations.get(labels.TEMPLATE_HASH, ""))


def _count(replicas: int) -> str:
    return f"{replicas} replica" if replicas == 1 else f"{replicas} replicas"
