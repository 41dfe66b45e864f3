"""An operator against a real API server, in a namespace of its own.

There are no nodes: the rig plays the kubelet, with a fake engine behind every pod that it makes ready.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

from octavo_operator import labels
from octavo_operator.engines import Address
from octavo_operator.errors import AlreadyExists, NotFound, Unavailable
from octavo_operator.kinds import DEPLOYMENT, EVENT, INFERENCE_SERVICE, POD, Kind, Object
from octavo_operator.kube import MERGE, Kube
from octavo_operator.main import operate
from octavo_operator.observed import Pod
from octavo_operator.settings import Settings
from tests.operator.fake_engine import FakeEngine

MODEL = {"uri": "bundled://smollm2-135m-instruct"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACES = "/api/v1/namespaces"


async def install_crd(kube: Kube, crd: Object) -> None:
    """Install or update the CRD, and wait until the API server serves it."""
    path = f"{CRDS}/{crd['metadata']['name']}"
    query = [("fieldManager", "test"), ("force", "true")]
    await kube.request("PATCH", path, crd, query, "application/apply-patch+yaml")
    await eventually(lambda: kube.list_all(INFERENCE_SERVICE, "default"), lambda listing: "items" in listing, within=60)


async def create_namespace(kube: Kube) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "octavo-test-"}}
    created = await kube.request("POST", NAMESPACES, body)
    return str(created["metadata"]["name"])


async def delete_namespace(kube: Kube, name: str) -> None:
    with contextlib.suppress(NotFound, AlreadyExists):
        await kube.request("DELETE", f"{NAMESPACES}/{name}")


async def eventually(look: Callable[[], Awaitable[Any]], until: Callable[[Any], Any], within: float = 15.0) -> Any:
    """Look again and again until what is seen is as wanted; return it."""
    deadline, seen = time.monotonic() + within, None
    while time.monotonic() < deadline:
        with contextlib.suppress(NotFound, Unavailable):
            seen = await look()
            if until(seen):
                return seen
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {within} s; last seen: {seen}")


def inference_service(name: str, namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": INFERENCE_SERVICE.api_version,
        "kind": INFERENCE_SERVICE.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": MODEL, **spec},
    }


class Rig:
    """`async with Rig(kube, namespace) as rig`: the operator runs, and so does the kubelet that the rig plays."""

    def __init__(self, kube: Kube, namespace: str, operator_kube: Kube | None = None, **settings: Any) -> None:
        self.kube = kube
        self._operator_kube = operator_kube or kube
        self.namespace = namespace
        self.settings = Settings(
            namespaces=(namespace,),
            operator_namespace=namespace,
            host="127.0.0.1",
            port=(port := free_port()),
            lease_seconds=15.0,
            drain_poll_seconds=0.1,
            endpoint_grace_seconds=0.2,
            **settings,
        )
        self.port = port
        self.engines: dict[str, FakeEngine] = {}
        self.num_placeable = 100
        self._stop = asyncio.Event()
        self._operator: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._kubelet = asyncio.create_task(self._play_kubelet())
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        self._kubelet.cancel()
        await asyncio.gather(self._kubelet, return_exceptions=True)
        for engine in self.engines.values():
            await engine.stop()

    async def start(self) -> None:
        """Start an operator process' worth of tasks."""
        self._stop = asyncio.Event()
        self._operator = asyncio.create_task(operate(self.settings, self._operator_kube, self._stop, self._resolve))

    async def stop(self) -> None:
        """Stop the operator as SIGTERM does; raises what it ended with."""
        if self._operator is not None:
            self._stop.set()
            await self._operator
            self._operator = None

    async def kill(self) -> None:
        """End the operator in the middle of whatever it does."""
        if self._operator is not None:
            self._operator.cancel()
            await asyncio.gather(self._operator, return_exceptions=True)
            self._operator = None

    async def create(self, name: str, **spec: Any) -> Object:
        return await self.kube.create(inference_service(name, self.namespace, **spec))

    async def change(self, name: str, **spec: Any) -> Object:
        return await self.kube.merge(INFERENCE_SERVICE, self.namespace, name, {"spec": spec})

    async def get(self, name: str) -> Object:
        return await self.kube.get(INFERENCE_SERVICE, self.namespace, name)

    async def children(self, kind: Kind, name: str) -> list[Object]:
        listing = await self.kube.list_all(kind, self.namespace, labels.selector(name))
        items: list[Object] = listing["items"]
        return items

    async def deployment(self, name: str) -> Object:
        """Return the only Deployment of a service."""
        deployments = await self.children(DEPLOYMENT, name)
        if len(deployments) != 1:
            raise NotFound(404, f"{len(deployments)} Deployments")
        return deployments[0]

    async def pods(self, name: str) -> list[Object]:
        return [pod for pod in await self.children(POD, name) if "deletionTimestamp" not in pod["metadata"]]

    def routed(self, pods: list[Object]) -> set[str]:
        """Return the names of pods that the Service sends requests to."""
        ready = [pod for pod in pods if condition(pod, "Ready").get("status") == "True"]
        return {pod["metadata"]["name"] for pod in ready if labels.SERVING in pod["metadata"]["labels"]}

    async def has_condition(self, name: str, kind: str, status: str, reason: str | None = None) -> Object:
        """Wait for a condition; return the service."""

        def is_there(service: Object) -> bool:
            found = condition(service, kind)
            is_current = found.get("observedGeneration") == service["metadata"]["generation"]
            return is_current and found["status"] == status and reason in (None, found["reason"])

        seen: Object = await eventually(lambda: self.get(name), is_there)
        return seen

    async def is_ready(self, name: str, ready: str) -> Object:
        """Wait for so many ready of so many desired replicas, as in "2/3"; return the service."""
        seen: Object = await eventually(lambda: self.get(name), lambda s: s.get("status", {}).get("ready") == ready)
        return seen

    async def events(self, reason: str) -> list[Object]:
        listing = await self.kube.list_all(EVENT, self.namespace)
        return [event for event in listing["items"] if event["reason"] == reason]

    def _resolve(self, pod: Pod) -> Address:
        engine = self.engines.get(pod.name)
        return ("127.0.0.1", engine.port if engine else 1)

    async def _play_kubelet(self) -> None:
        while True:
            listing = await self.kube.list_all(POD, self.namespace, labels.OWNED)
            pods = [pod for pod in listing["items"] if "deletionTimestamp" not in pod["metadata"]]
            for pod in pods[: self.num_placeable]:
                with contextlib.suppress(NotFound, AlreadyExists):
                    await self._run_pod(pod)
            await asyncio.sleep(0.1)

    async def _run_pod(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if name not in self.engines:
            self.engines[name] = await FakeEngine.start()
        ready = "False" if self.engines[name].is_draining else "True"
        if condition(pod, "Ready").get("status") != ready:
            await self.set_pod_status(name, running_status(ready))

    async def set_pod_status(self, name: str, status: Object) -> None:
        path = POD.path(self.namespace, name, "status")
        await self.kube.request("PATCH", path, {"status": status}, content_type=MERGE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def running_status(ready: str) -> Object:
    return {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "conditions": [{"type": "Ready", "status": ready}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [
            {
                "name": "engine",
                "image": "engine",
                "imageID": "engine",
                "ready": ready == "True",
                "restartCount": 0,
                "started": True,
                "state": {"running": {}},
            }
        ],
    }


def blocked_status(message: str) -> Object:
    blocked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [blocked]}


def condition(body: Object, kind: str) -> Object:
    conditions = body.get("status", {}).get("conditions") or []
    return next((dict(each) for each in conditions if each["type"] == kind), {})
