"""Leadership by a Lease, and the fence before every write.

A replica leads while it renews the Lease in time. It judges time by its own steady clock only: another's Lease has run
out when it was not seen to change for its whole duration, and its own when the last renewal began too long ago.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from octavo_operator.errors import AlreadyExists, ApiError, LeaseLost, NotFound
from octavo_operator.kinds import LEASE, Object
from octavo_operator.kube import Kube

logger = logging.getLogger(__name__)

# A leader stops writing at this share of the duration, so that it has stopped before anybody else may start.
FENCE_SHARE = 0.8


class Lease:
    """One replica's view of the Lease."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        duration: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._clock = clock
        self._renewed_at = -float("inf")
        self._seen: tuple[str, float] = ("", 0.0)

    @property
    def is_held(self) -> bool:
        return self._clock() - self._renewed_at < self._duration * FENCE_SHARE

    def check(self) -> None:
        """Raise `LeaseLost` unless this replica leads. Called before every write."""
        if not self.is_held:
            raise LeaseLost(f"{self._identity} does not hold Lease {self._namespace}/{self._name}")

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        while True:
            if await self._try():
                logger.info("%s leads", self._identity)
                return
            await asyncio.sleep(min(self._duration / 5, 2.0))

    async def keep(self) -> None:
        """Renew for ever. Raises `LeaseLost` when that did not succeed in time, or another replica took over."""
        while True:
            await asyncio.sleep(self._duration / 5)
            if not await self._try():
                self.check()

    async def release(self) -> None:
        """Let another replica lead at once."""
        if not self.is_held:
            return
        self._renewed_at = -float("inf")
        with contextlib.suppress(ApiError):
            lease = await self._kube.get(LEASE, self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._kube.replace({**lease, "spec": {**lease["spec"], "holderIdentity": "", "renewTime": None}})

    async def _try(self) -> bool:
        """Take or renew the Lease. Returns whether this replica holds it after the attempt."""
        started = self._clock()
        try:
            # A request that hangs must leave time for another before the Lease runs out.
            async with asyncio.timeout(self._duration / 4):
                await self._take()
        except (ApiError, TimeoutError) as error:
            logger.warning("Lease %s/%s: %r", self._namespace, self._name, error)
            return False
        except _HeldByAnother:
            self._renewed_at = -float("inf")
            return False
        self._renewed_at = started
        return True

    async def _take(self) -> None:
        try:
            lease = await self._kube.get(LEASE, self._namespace, self._name)
        except NotFound:
            await self._kube.create(self._body({}))
            return
        if not self._may_take(lease):
            raise _HeldByAnother
        try:
            await self._kube.replace(self._body(lease))
        except AlreadyExists as error:
            raise _HeldByAnother from error

    def _may_take(self, lease: Object) -> bool:
        spec = lease.get("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        version = lease["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, self._clock())
        return self._clock() - self._seen[1] >= float(spec.get("leaseDurationSeconds") or self._duration)

    def _body(self, lease: Object) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = lease.get("spec", {})
        is_ours = spec.get("holderIdentity") == self._identity
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": lease.get("metadata") or {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._duration)),
                "acquireTime": spec.get("acquireTime", now) if is_ours else now,
                "renewTime": now,
                "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if is_ours or not spec else 1),
            },
        }


class _HeldByAnother(Exception):
    """Another replica leads, or was faster."""
