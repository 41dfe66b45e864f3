"""Leadership, on a real API server with clocks that the test moves."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from octavo_operator.errors import LeaseLost
from octavo_operator.kinds import LEASE, Object
from octavo_operator.kube import Kube
from octavo_operator.lease import Lease

pytestmark = pytest.mark.apiserver

DURATION = 10.0


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def lease(kube: Kube, namespace: str, identity: str, clock: Clock) -> Lease:
    return Lease(kube, namespace, "operator", identity, DURATION, clock)


async def acquires(of: Lease) -> bool:
    try:
        await asyncio.wait_for(of.acquire(), timeout=0.5)
    except TimeoutError:
        return False
    return True


async def test_only_one_leads(kube: Kube, namespace: str) -> None:
    clock = Clock()
    first, second = lease(kube, namespace, "first", clock), lease(kube, namespace, "second", clock)
    assert await acquires(first)
    assert not await acquires(second)
    first.check()
    with pytest.raises(LeaseLost):
        second.check()


async def test_a_silent_leader_stops_before_another_starts(kube: Kube, namespace: str) -> None:
    clock = Clock()
    first, second = lease(kube, namespace, "first", clock), lease(kube, namespace, "second", clock)
    assert await acquires(first)
    assert not await acquires(second)
    clock.now += 0.9 * DURATION
    with pytest.raises(LeaseLost):
        first.check()
    assert not await acquires(second)
    clock.now += 0.2 * DURATION
    assert await acquires(second)
    held = await kube.get(LEASE, namespace, "operator")
    assert (held["spec"]["holderIdentity"], held["spec"]["leaseTransitions"]) == ("second", 1)


async def test_a_leader_that_comes_back_late_does_not_lead(kube: Kube, namespace: str) -> None:
    clock = Clock()
    first, second = lease(kube, namespace, "first", clock), lease(kube, namespace, "second", clock)
    assert await acquires(first)
    assert not await acquires(second)
    clock.now += 2 * DURATION
    assert await acquires(second)
    assert not await acquires(first)
    with pytest.raises(LeaseLost):
        first.check()


async def test_a_leader_that_stops_hands_over_at_once(kube: Kube, namespace: str) -> None:
    clock = Clock()
    first, second = lease(kube, namespace, "first", clock), lease(kube, namespace, "second", clock)
    assert await acquires(first)
    await first.release()
    assert await acquires(second)
    await first.release()
    second.check()


async def test_a_request_that_hangs_leaves_time_for_another(kube: Kube, namespace: str) -> None:
    class HangingOnce(Kube):
        num_requests = 0

        async def request(self, *args: Any, **kwargs: Any) -> Object:
            HangingOnce.num_requests += 1
            if HangingOnce.num_requests == 3:
                await asyncio.sleep(3600)
            return await super().request(*args, **kwargs)

    of = Lease(HangingOnce(kube.client), namespace, "operator", "first", duration=4.0)
    assert await acquires(of)
    keeping = asyncio.create_task(of.keep())
    await asyncio.sleep(4.5)
    of.check()
    assert HangingOnce.num_requests > 4
    keeping.cancel()


async def test_no_write_happens_without_the_lease(kube: Kube, namespace: str) -> None:
    holder = lease(kube, namespace, "nobody", Clock())
    fenced = kube.fenced(holder.check)
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "never", "namespace": namespace}}
    with pytest.raises(LeaseLost):
        await fenced.create(body)
