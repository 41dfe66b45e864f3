"""One reconcile of one service: observe, render, plan, apply, summarize. Safe to repeat at any moment."""

import logging

from pydantic import ValidationError

from octavo_operator import metrics
from octavo_operator.apply import Applier
from octavo_operator.cache import Cache, split
from octavo_operator.conditions import Acceptance, Situation
from octavo_operator.drainer import Token
from octavo_operator.errors import Conflict, Refused
from octavo_operator.execute import Executor
from octavo_operator.observe import observe
from octavo_operator.observed import Observed
from octavo_operator.render.pdb import render_pdb
from octavo_operator.render.secret import render_secret, secret_name
from octavo_operator.render.service import render_service
from octavo_operator.report import Reporter
from octavo_operator.resource import InferenceService
from octavo_operator.scaler import Scaler
from octavo_operator.services import Services

logger = logging.getLogger(__name__)

# Somebody else's object is not watched, so its going is only found by looking again.
CONFLICT_RETRY_SECONDS = 30.0


class Reconciler:
    """Makes the cluster be as one service's spec says, one step at a time."""

    def __init__(
        self,
        cache: Cache,
        services: Services,
        applier: Applier,
        executor: Executor,
        scaler: Scaler,
        reporter: Reporter,
        token: Token,
    ) -> None:
        self._cache = cache
        self._services = services
        self._applier = applier
        self._executor = executor
        self._scaler = scaler
        self._reporter = reporter
        self._token = token
        self._secrets: dict[str, str] = {}

    async def reconcile(self, key: str) -> float | None:
        """Take the next step for a service. Returns after how many seconds to look again, events or not."""
        try:
            service = self._services.get(key)
        except ValidationError as error:
            return await self._report_invalid(key, error)
        if service is None:
            self._forget(key)
            return None
        observed = observe(self._cache, key)
        desired = self._scaler.desired(service, observed)
        acceptance, again = await self._carry_out(service, observed, desired)
        situation = Situation(service, observe(self._cache, key), desired, acceptance, self._scaler.decision(key))
        metrics.observe_service(service.namespace, service.name, desired, situation.num_ready)
        return earliest(again, await self._reporter.report(situation))

    async def _carry_out(
        self, service: InferenceService, observed: Observed, desired: int
    ) -> tuple[Acceptance, float | None]:
        try:
            await self._ensure_children(service, observed)
            return Acceptance(), await self._executor.advance(service, observed, desired)
        except Conflict as error:
            return Acceptance("Conflict", str(error)), CONFLICT_RETRY_SECONDS
        except Refused as error:
            if "being terminated" in error.message:
                return Acceptance(), None
            logger.warning("%s: %s", service.key, error)
            return Acceptance("Forbidden" if error.status == 403 else "InvalidPodTemplate", error.message), None

    async def _ensure_children(self, service: InferenceService, observed: Observed) -> None:
        await self._ensure_secret(service, observed)
        await self._applier.ensure(service, render_service(service))
        await self._applier.ensure(service, render_pdb(service))

    async def _ensure_secret(self, service: InferenceService, observed: Observed) -> None:
        """Create the Secret once, and again when a pod misses one: the operator may not read Secrets."""
        name = secret_name(service)
        is_missed = any(pod.failure and pod.failure.reason == "MissingSecret" for pod in observed.pods)
        if self._secrets.get(service.key) != name or is_missed:
            await self._applier.create_secret(render_secret(service, self._token(service)))
            self._secrets[service.key] = name

    def _forget(self, key: str) -> None:
        """Forget a service that is gone; its children go by their owner references."""
        metrics.forget_service(*split(key))
        self._reporter.forget(key)
        self._secrets.pop(key, None)

    async def _report_invalid(self, key: str, error: ValidationError) -> float | None:
        """Report what the schema let through and the operator cannot read; retried when it changes."""
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        await self._reporter.report_unreadable(key, f"spec.{where}: {first['msg']}")
        return None


def earliest(*times: float | None) -> float | None:
    """Return the smallest of those that are set."""
    return min((time for time in times if time is not None), default=None)
