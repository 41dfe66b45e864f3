"""What goes wrong around the operator, on a real API server."""

import asyncio

import aiohttp
import pytest

from octavo_operator import labels
from octavo_operator.cache import Cache
from octavo_operator.events import Event, Recorder
from octavo_operator.kinds import DEPLOYMENT, EVENT, POD, SECRET, SERVICE, Object
from octavo_operator.kube import Kube
from octavo_operator.queue import KeyedQueue
from octavo_operator.watch import Watcher
from tests.operator.builders import service
from tests.operator.rig import Rig, condition, eventually, running_status

pytestmark = pytest.mark.apiserver


async def test_an_upgraded_operator_restarts_no_engine(kube: Kube, namespace: str) -> None:
    """It renders another image, and leaves what an older one rendered until its spec changes."""
    async with Rig(kube, namespace, engine_image="example.org/engine:1") as old:
        await old.create("chat")
        await old.is_ready("chat", "1/1")
    async with Rig(kube, namespace, engine_image="example.org/engine:2") as new:
        before = await new.deployment("chat")
        await new.change("chat", replicas=2)
        await new.is_ready("chat", "2/2")
        after = await new.deployment("chat")
        assert after["spec"]["template"] == before["spec"]["template"]
        await new.change("chat", engine={"maxNumSeqs": 4})
        await eventually(lambda: images(new), lambda seen: seen == {"example.org/engine:2"})
        await new.is_ready("chat", "2/2")


async def images(rig: Rig) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in await rig.pods("chat")}


async def test_a_secret_that_was_deleted_comes_back_when_a_pod_misses_it(rig: Rig) -> None:
    await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    (secret,) = await rig.children(SECRET, "chat")
    metadata = secret["metadata"]
    await rig.kube.delete(SECRET, rig.namespace, metadata["name"], metadata["uid"])
    (pod,) = await rig.pods("chat")
    rig.num_placeable = 0
    status = running_status("False")
    waiting = {"reason": "CreateContainerConfigError", "message": f'secret "{metadata["name"]}" not found'}
    status["containerStatuses"][0] |= {"started": False, "state": {"waiting": waiting}}
    await rig.set_pod_status(pod["metadata"]["name"], status)
    (again,) = await eventually(lambda: rig.children(SECRET, "chat"), bool)
    assert again["data"] == secret["data"]


async def test_a_crashing_engine_is_reported_in_its_own_words(rig: Rig) -> None:
    rig.num_placeable = 0
    await rig.create("chat")
    (pod,) = await eventually(lambda: rig.pods("chat"), bool)
    status = running_status("False")
    status["containerStatuses"][0] |= {
        "started": False,
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "no such model: smollm3"}},
    }
    await rig.set_pod_status(pod["metadata"]["name"], status)
    seen = await rig.has_condition("chat", "Ready", "False", "CrashLoop")
    assert "no such model: smollm3" in condition(seen, "Ready")["message"]
    assert condition(seen, "Stalled")["status"] == "True"


async def test_a_service_of_an_operator_that_was_down_is_caught_up_with(kube: Kube, namespace: str) -> None:
    async with Rig(kube, namespace) as rig:
        await rig.create("chat", replicas=2)
        await rig.is_ready("chat", "2/2")
        await rig.stop()
        await rig.change("chat", replicas=1)
        (address,) = await rig.children(SERVICE, "chat")
        await kube.delete(SERVICE, namespace, "chat", address["metadata"]["uid"])
        await rig.start()
        await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 1)
        await eventually(lambda: rig.children(SERVICE, "chat"), bool)


async def test_a_deletion_that_the_watch_missed_is_found_by_listing_again(kube: Kube, namespace: str) -> None:
    cache, queue = Cache(), KeyedQueue()
    watcher = Watcher(kube, cache, queue, (namespace,))
    await kube.create(child(namespace))
    await watcher.sync()
    assert cache.of_service(SERVICE, f"{namespace}/chat")
    assert await queue.get() == f"{namespace}/chat"
    queue.done(f"{namespace}/chat")
    live = await kube.get(SERVICE, namespace, "chat")
    await kube.delete(SERVICE, namespace, "chat", live["metadata"]["uid"])
    await watcher.resync()
    assert not cache.of_service(SERVICE, f"{namespace}/chat")
    assert await queue.get() == f"{namespace}/chat"


def child(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "chat", "namespace": namespace, "labels": labels.owned("chat")},
        "spec": {"ports": [{"port": 80}]},
    }


async def test_a_user_without_a_name_may_run_the_operator(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in its container: the user has a number, and no entry anywhere."""

    def get_no_user() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr("getpass.getuser", get_no_user)
    async with Rig(kube, namespace) as rig:
        await rig.create("chat")
        await rig.is_ready("chat", "1/1")
        await rig.change("chat", replicas=2)
        await rig.is_ready("chat", "2/2")


async def test_a_watch_that_began_anew_is_followed_by_a_listing(kube: Kube, namespace: str) -> None:
    now = [0.0]
    cache = Cache()
    watcher = Watcher(kube, cache, KeyedQueue(), (namespace,), lambda: now[0])
    await watcher.sync()
    vanished = child(namespace)
    vanished["metadata"] |= {"name": "vanished", "resourceVersion": "1"}
    cache.put(SERVICE, vanished)
    created = await kube.create(child(namespace))
    watcher.on_event(SERVICE, {"type": None, "object": created})
    now[0] += 6
    running = asyncio.create_task(watcher.run(3600))
    await eventually(lambda: asyncio.sleep(0, list(cache.all(SERVICE))), lambda bodies: len(bodies) == 1)
    running.cancel()


async def test_an_operator_that_watches_nothing_says_so(kube: Kube) -> None:
    now = [0.0]
    watcher = Watcher(kube, Cache(), KeyedQueue(), ("default",), lambda: now[0])
    assert watcher.find_problem() == "the first listing has not succeeded yet"
    await watcher.sync()
    assert watcher.find_problem() == "nothing is watched"
    assert watcher.find_lasting_problem() is None
    now[0] += 61
    assert watcher.find_lasting_problem() == "nothing was watched for 61 s"
    watcher.is_watching.set()
    assert (watcher.find_problem(), watcher.find_lasting_problem()) == (None, None)


async def test_equal_events_are_folded_into_one_with_a_count(kube: Kube, namespace: str) -> None:
    now = [1_800_000_000.0]
    of = service("chat", namespace)

    async def record_thrice() -> None:
        recorder = Recorder(kube, lambda: now[0])
        for _ in range(3):
            await recorder.record(of, Event("Normal", "ScaledUp", "to 2"))
            now[0] += 61

    await record_thrice()
    await record_thrice()
    listing = await kube.list_all(EVENT, namespace)
    (event,) = [each for each in listing["items"] if each["reason"] == "ScaledUp"]
    assert event["count"] == 6


async def test_health_and_metrics_are_served(kube: Kube, namespace: str) -> None:
    async with Rig(kube, namespace) as rig, aiohttp.ClientSession() as session:
        await rig.create("chat")
        await rig.is_ready("chat", "1/1")
        for path, word in (("healthz", "ok"), ("readyz", "ok"), ("metrics", "octavo_operator_reconciles_total")):
            async with session.get(f"http://127.0.0.1:{rig.port}/{path}") as response:
                assert response.status == 200
                assert word in await response.text()


async def test_an_object_being_deleted_is_waited_for(rig: Rig) -> None:
    await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    deployment = await rig.deployment("chat")
    metadata = deployment["metadata"]
    await rig.kube.merge(
        DEPLOYMENT, rig.namespace, metadata["name"], {"metadata": {"finalizers": ["example.org/hold"]}}
    )
    await rig.kube.delete(DEPLOYMENT, rig.namespace, metadata["name"], metadata["uid"])
    await asyncio.sleep(1)
    assert condition(await rig.get("chat"), "Accepted")["status"] == "True"
    await rig.kube.merge(DEPLOYMENT, rig.namespace, metadata["name"], {"metadata": {"finalizers": None}})
    await eventually(lambda: rig.deployment("chat"), lambda live: live["metadata"]["uid"] != metadata["uid"])
    await rig.is_ready("chat", "1/1")


async def test_a_pod_killed_by_hand_is_replaced(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    await rig.is_ready("chat", "2/2")
    pod = (await rig.pods("chat"))[0]["metadata"]
    await rig.kube.delete(POD, rig.namespace, pod["name"], pod["uid"])
    await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 2 and pod["name"] not in str(pods))
    await rig.is_ready("chat", "2/2")
