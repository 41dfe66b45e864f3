"""Replicas wanted now more and now fewer, specs that change, operators that are killed: no request is ever cut."""

import asyncio
import contextlib
import random
import time

import pytest

from tests.operator.rig import Rig, eventually

pytestmark = pytest.mark.apiserver

STORM_SECONDS = 25.0


class Clients:
    """Send requests to replicas that the Service selects and that are ready; notice those whose replica went away."""

    def __init__(self, rig: Rig, chance: random.Random) -> None:
        self._rig = rig
        self._chance = chance
        self._open: list[tuple[str, float]] = []
        self.num_finished = 0
        self.cut: list[str] = []

    async def run(self) -> None:
        while True:
            pods = await self._rig.pods("chat")
            existing = {pod["metadata"]["name"] for pod in pods}
            self._end(existing)
            self._begin(sorted(self._rig.routed(pods)))
            await asyncio.sleep(0.05)

    def _begin(self, routed: list[str]) -> None:
        accepting = [name for name in routed if not self._rig.engines[name].is_draining]
        if accepting and len(self._open) < 12:
            name = self._chance.choice(accepting)
            self._rig.engines[name].running += 1
            self._open.append((name, time.monotonic() + self._chance.uniform(0.1, 3.0)))

    def _end(self, existing: set[str]) -> None:
        for request in list(self._open):
            name, until = request
            if name not in existing:
                self.cut.append(name)
            elif time.monotonic() < until:
                continue
            else:
                self.num_finished += 1
            self._open.remove(request)
            self._rig.engines[name].running -= 1


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_request_is_cut_while_everything_changes(rig: Rig, seed: int) -> None:
    chance = random.Random(seed)
    await rig.create("chat", replicas=2, engine={"drainTimeoutSeconds": 60})
    await rig.is_ready("chat", "2/2")
    clients = Clients(rig, chance)
    working = asyncio.create_task(clients.run())
    deadline = time.monotonic() + STORM_SECONDS
    while time.monotonic() < deadline:
        await change_something(rig, chance)
        await asyncio.sleep(chance.uniform(0.1, 1.0))
    await rig.change("chat", replicas=2)
    await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 2, within=60)
    await rig.is_ready("chat", "2/2")
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    assert clients.cut == []
    assert clients.num_finished > 50


async def change_something(rig: Rig, chance: random.Random) -> None:
    what = chance.random()
    if what < 0.7:
        await rig.change("chat", replicas=chance.randint(1, 4))
    elif what < 0.85:
        await rig.change("chat", engine={"maxNumSeqs": chance.choice([4, 8])})
    else:
        await rig.kill()
        await rig.start()
