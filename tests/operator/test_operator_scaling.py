"""Scaling on a real API server: growth by load, and the two phases of a drain."""

import asyncio

import pytest

from octavo_operator import labels
from octavo_operator.kinds import POD
from tests.operator.rig import Rig, condition, eventually

pytestmark = pytest.mark.apiserver

QUICK = {
    "maxReplicas": 3,
    "metrics": {"scrapeIntervalSeconds": 1, "staleAfterSeconds": 4},
    "scaleUp": {"periodSeconds": 1},
    "scaleDown": {"stabilizationSeconds": 2, "periodSeconds": 1, "maxPods": 3},
}


def load_all(rig: Rig, running: int = 0, waiting: int = 0, kv_used: int = 0) -> None:
    for engine in rig.engines.values():
        engine.load(running, waiting, kv_used)


async def serving(rig: Rig) -> set[str]:
    """Names of pods that the Service selects."""
    return {pod["metadata"]["name"] for pod in await rig.pods("chat") if labels.SERVING in pod["metadata"]["labels"]}


async def draining(rig: Rig) -> set[str]:
    pods = await rig.pods("chat")
    return {p["metadata"]["name"] for p in pods if labels.DRAINING_SINCE in (p["metadata"].get("annotations") or {})}


async def test_replicas_follow_the_load_up_and_down(rig: Rig) -> None:
    await rig.create("chat", autoscaling=QUICK)
    await rig.is_ready("chat", "1/1")
    load_all(rig, running=8, waiting=20, kv_used=950)
    await rig.is_ready("chat", "3/3")
    load_all(rig)
    await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 1)
    service = await rig.is_ready("chat", "1/1")
    history = service["status"]["autoscaling"]["history"]
    assert [change["to"] for change in history][-1] == 1
    assert max(change["to"] for change in history) == 3
    assert service["status"]["autoscaling"]["lastDecision"]
    assert condition(service, "ScalingActive")["status"] == "True"
    for reason in ("ScaledUp", "ScaledDown", "DrainStarted", "DrainCompleted"):
        assert await rig.events(reason), reason


async def test_a_victim_leaves_the_service_and_stays_until_its_requests_are_done(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    await rig.is_ready("chat", "2/2")
    load_all(rig, running=3)
    await rig.change("chat", replicas=1)
    (victim,) = await eventually(lambda: draining(rig), bool)
    assert victim not in await serving(rig)
    await eventually(lambda: asyncio.sleep(0, rig.engines[victim].is_draining), bool)
    await asyncio.sleep(1.5)
    deployment = await rig.deployment("chat")
    assert deployment["spec"]["replicas"] == 2
    assert len(await rig.pods("chat")) == 2
    rig.engines[victim].load()
    await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 1)
    assert victim not in {pod["metadata"]["name"] for pod in await rig.pods("chat")}
    assert all(token.startswith("Bearer ") for token in rig.engines[victim].tokens)
    await eventually(lambda: rig.get("chat"), lambda s: s["status"].get("drainingReplicas") == 0)


async def test_returning_load_puts_the_victim_back(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    await rig.is_ready("chat", "2/2")
    before = await serving(rig)
    load_all(rig, running=3)
    await rig.change("chat", replicas=1)
    (victim,) = await eventually(lambda: draining(rig), bool)
    await eventually(lambda: asyncio.sleep(0, rig.engines[victim].is_draining), bool)
    await rig.change("chat", replicas=2)
    await eventually(lambda: serving(rig), lambda names: names == before)
    assert not rig.engines[victim].is_draining
    assert not rig.engines.keys() - before
    pod = await rig.kube.get(POD, rig.namespace, victim)
    annotations = pod["metadata"].get("annotations") or {}
    assert labels.DRAINING_SINCE not in annotations
    assert labels.DELETION_COST not in annotations


async def test_an_engine_that_drains_though_it_should_serve_is_put_back(rig: Rig) -> None:
    """As after an operator that ended between telling the engine and labelling the pod."""
    await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    (engine,) = rig.engines.values()
    engine.is_draining = True
    await eventually(lambda: asyncio.sleep(0, engine.is_draining), lambda is_draining: not is_draining)
    await rig.is_ready("chat", "1/1")


async def test_a_restarted_operator_goes_on_with_a_drain(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    await rig.is_ready("chat", "2/2")
    load_all(rig, running=3)
    await rig.change("chat", replicas=1)
    (victim,) = await eventually(lambda: draining(rig), bool)
    await rig.stop()
    rig.engines[victim].is_draining = False
    await rig.start()
    await eventually(lambda: asyncio.sleep(0, rig.engines[victim].is_draining), bool)
    assert await draining(rig) == {victim}
    rig.engines[victim].load()
    await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 1)


async def test_a_drain_ends_at_its_timeout(rig: Rig) -> None:
    await rig.create("chat", replicas=2, engine={"drainTimeoutSeconds": 2})
    await rig.is_ready("chat", "2/2")
    load_all(rig, running=3)
    await rig.change("chat", replicas=1)
    await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 1)
    assert await eventually(lambda: rig.events("DrainTimeout"), bool)


async def test_engines_that_do_not_answer_never_shrink_a_service(rig: Rig) -> None:
    await rig.create("chat", autoscaling=QUICK | {"minReplicas": 1})
    await rig.is_ready("chat", "1/1")
    load_all(rig, running=8, waiting=20, kv_used=950)
    await rig.is_ready("chat", "3/3")
    for engine in rig.engines.values():
        engine.is_broken = True
    await rig.has_condition("chat", "MetricsAvailable", "False")
    await asyncio.sleep(4)
    service = await rig.get("chat")
    assert service["status"]["desiredReplicas"] == 3
    assert condition(service, "Ready")["status"] == "True"


async def test_advice_is_reported_and_not_acted_on(rig: Rig) -> None:
    await rig.create("chat", replicas=1, autoscaling=QUICK | {"mode": "Advisory"})
    await rig.is_ready("chat", "1/1")
    load_all(rig, running=8, waiting=20, kv_used=950)
    service = await rig.has_condition("chat", "ScalingActive", "False", "Advisory")
    service = await eventually(
        lambda: rig.get("chat"), lambda s: s["status"].get("autoscaling", {}).get("recommended", 0) > 1, within=25
    )
    assert service["status"]["desiredReplicas"] == 1
    assert len(await rig.pods("chat")) == 1
