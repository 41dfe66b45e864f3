"""The scrape-and-decide loop, with a scraper that answers what a test says."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from octavo_operator import labels
from octavo_operator.autoscaler.types import PodSample
from octavo_operator.cache import Cache
from octavo_operator.kinds import DEPLOYMENT, INFERENCE_SERVICE, POD
from octavo_operator.queue import KeyedQueue
from octavo_operator.scaler import Scaler
from octavo_operator.scrape import ScrapeTarget
from octavo_operator.services import Services
from tests.operator.autoscaler_fakes import engine
from tests.operator.builders import resource
from tests.operator.rig import running_status

CREATED = "2027-01-01T00:00:00Z"


class FakeScraper:
    """Every engine holds the same load, and makes progress."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.metrics = engine()
        self.rounds: list[list[str]] = []
        self._clock = clock

    async def scrape(self, targets: Sequence[ScrapeTarget]) -> tuple[PodSample, ...]:
        self.rounds.append([target.pod for target in targets])
        metrics = replace(self.metrics, steps_total=float(len(self.rounds)))
        return tuple(PodSample(target.pod, target.ip, self._clock(), metrics) for target in targets)


class World:
    """Services with one ready replica each, and a clock."""

    def __init__(self, *names: str, **spec: Any) -> None:
        self.now = 1_800_000_000.0
        self.cache = Cache()
        self.queue = KeyedQueue()
        self.scraper = FakeScraper(lambda: self.now)
        services = Services(self.cache)
        self.scaler = Scaler(self.cache, services, self.queue, self.scraper, clock=lambda: self.now)
        for name in names:
            self.add(name, **spec)

    def add(self, name: str, **spec: Any) -> None:
        self.cache.put(INFERENCE_SERVICE, versioned(resource(name, **spec)))
        about = {"namespace": "team", "creationTimestamp": CREATED, "resourceVersion": "1"}
        of = {labels.SERVICE: name, labels.REVISION: "r", labels.SERVING: "true"}
        deployment = {"metadata": about | {"name": f"{name}-r", "labels": of}, "spec": {"replicas": 1}}
        pod_about = about | {"name": f"{name}-pod", "uid": f"{name}-uid", "labels": of}
        self.cache.put(DEPLOYMENT, deployment)
        self.cache.put(POD, {"metadata": pod_about, "status": running_status("True")})

    async def tick(self, seconds: float = 5.0) -> None:
        self.now += seconds
        await self.scaler.tick()


def versioned(body: dict[str, Any]) -> dict[str, Any]:
    body["metadata"]["resourceVersion"] = "1"
    return body


AUTO = {"autoscaling": {"maxReplicas": 4}}


async def test_load_is_decided_on_and_the_service_is_woken() -> None:
    world = World("chat", **AUTO)
    world.scraper.metrics = engine(used=900, waiting=9, prompt_tokens=900)
    await world.tick()
    await world.tick()
    decision = world.scaler.decision("team/chat")
    assert decision is not None
    assert decision.desired > 1
    assert await world.queue.get() == "team/chat"


async def test_a_decision_that_tells_nothing_new_wakes_nobody() -> None:
    world = World("chat", **AUTO)
    await world.tick()
    await world.tick()
    await world.queue.get()
    world.queue.done("team/chat")
    await world.tick()
    assert len(world.queue) == 0


async def test_each_service_is_asked_at_its_own_interval() -> None:
    world = World("often", autoscaling={"maxReplicas": 2, "metrics": {"scrapeIntervalSeconds": 1}})
    world.add("seldom", autoscaling={"maxReplicas": 2, "metrics": {"scrapeIntervalSeconds": 5}})
    for _ in range(5):
        await world.tick(1.0)
    asked = [pod for pods in world.scraper.rounds for pod in pods]
    assert (asked.count("often-pod"), asked.count("seldom-pod")) == (5, 1)


async def test_one_service_that_cannot_be_decided_on_does_not_stop_the_others() -> None:
    world = World("first", "second", **AUTO)
    broken = world.cache.of_service(INFERENCE_SERVICE, "team/first")[0]
    broken["status"] = {"desiredReplicas": "many"}
    await world.tick()
    assert world.scaler.decision("team/second") is not None


async def test_a_deleted_service_is_forgotten() -> None:
    world = World("chat", **AUTO)
    await world.tick()
    body = world.cache.service("team/chat")
    assert body is not None
    world.cache.remove(INFERENCE_SERVICE, body)
    await world.tick()
    assert world.scaler.decision("team/chat") is None


async def test_requests_of_each_replica_are_known_for_choosing_victims() -> None:
    world = World("chat", **AUTO)
    world.scraper.metrics = engine(used=10, running=3, waiting=2)
    await world.tick()
    assert world.scaler.num_requests("team/chat") == {"chat-pod": 5}
