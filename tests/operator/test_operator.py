"""The operator on a real API server."""

import asyncio
from functools import partial
from typing import Any

import pytest

from octavo_operator import labels
from octavo_operator.errors import Refused
from octavo_operator.kinds import DEPLOYMENT, DISRUPTION_BUDGET, INFERENCE_SERVICE, LEASE, POD, SECRET, SERVICE, Kind
from octavo_operator.kube import Kube
from tests.operator.rig import (
    Rig,
    blocked_status,
    condition,
    create_namespace,
    delete_namespace,
    eventually,
    inference_service,
)

pytestmark = pytest.mark.apiserver


async def test_a_service_gets_its_children_and_becomes_ready(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    service = await rig.has_condition("chat", "Ready", "True", "Ready")
    for kind in (SERVICE, DISRUPTION_BUDGET, SECRET, DEPLOYMENT):
        assert len(await rig.children(kind, "chat")) == 1, kind
    service = await rig.is_ready("chat", "2/2")
    assert service["status"]["url"] == f"http://chat.{rig.namespace}.svc/v1"
    assert service["status"]["observedGeneration"] == 1
    assert condition(await rig.has_condition("chat", "Reconciling", "False"), "Stalled")["status"] == "False"


async def test_an_idle_service_causes_no_writes(rig: Rig) -> None:
    await rig.create("chat")
    await rig.has_condition("chat", "MetricsAvailable", "True")
    await asyncio.sleep(2)
    before = await versions(rig, "chat")
    await asyncio.sleep(8)
    assert await versions(rig, "chat") == before


async def versions(rig: Rig, name: str) -> list[str]:
    objects = [await rig.get(name)]
    for kind in (SERVICE, DISRUPTION_BUDGET, DEPLOYMENT, POD):
        objects += await rig.children(kind, name)
    return [each["metadata"]["resourceVersion"] for each in objects]


async def test_a_restart_writes_nothing(rig: Rig) -> None:
    await rig.create("chat")
    await rig.has_condition("chat", "MetricsAvailable", "True")
    await asyncio.sleep(2)
    before = await versions(rig, "chat")
    await rig.stop()
    await rig.start()
    await asyncio.sleep(8)
    assert await versions(rig, "chat") == before


async def test_drift_is_repaired(rig: Rig) -> None:
    await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    deployment = await rig.deployment("chat")
    name = deployment["metadata"]["name"]
    containers = [{**deployment["spec"]["template"]["spec"]["containers"][0], "image": "example.org/other:1"}]
    patch = {"spec": {"replicas": 5, "template": {"spec": {"containers": containers}}}}
    await rig.kube.merge(DEPLOYMENT, rig.namespace, name, patch)

    def is_repaired(seen: dict[str, Any]) -> bool:
        spec = seen["spec"]
        image = spec["template"]["spec"]["containers"][0]["image"]
        return bool(spec["replicas"] == 1 and image == rig.settings.engine_image)

    await eventually(lambda: rig.deployment("chat"), is_repaired, within=5.0)


@pytest.mark.parametrize("kind", [SERVICE, DISRUPTION_BUDGET, DEPLOYMENT])
async def test_a_deleted_child_comes_back(rig: Rig, kind: Kind) -> None:
    await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    (child,) = await rig.children(kind, "chat")
    metadata = child["metadata"]
    await rig.kube.delete(kind, rig.namespace, metadata["name"], metadata["uid"])

    async def look() -> list[str]:
        return [each["metadata"]["uid"] for each in await rig.children(kind, "chat")]

    await eventually(look, lambda uids: uids and metadata["uid"] not in uids, within=5.0)


async def test_a_child_that_lost_its_labels_gets_them_back(rig: Rig) -> None:
    await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    await rig.kube.merge(SERVICE, rig.namespace, "chat", {"metadata": {"labels": {labels.MANAGED_BY: None}}})

    async def look() -> dict[str, str]:
        live = await rig.kube.get(SERVICE, rig.namespace, "chat")
        return dict(live["metadata"]["labels"])

    await eventually(look, lambda found: found.get(labels.MANAGED_BY) == "octavo")


async def test_somebody_elses_object_is_never_touched(rig: Rig) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "chat", "namespace": rig.namespace},
        "spec": {"ports": [{"port": 1234}], "selector": {"app": "mine"}},
    }
    created = await rig.kube.create(foreign)
    await rig.create("chat")
    service = await rig.has_condition("chat", "Accepted", "False", "Conflict")
    assert "Service chat" in condition(service, "Accepted")["message"]
    assert condition(service, "Ready")["reason"] == "Conflict"
    live = await rig.kube.get(SERVICE, rig.namespace, "chat")
    assert live["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert await rig.events("InvalidSpec")


async def test_a_pod_template_that_the_server_refuses_is_reported_in_its_words(rig: Rig) -> None:
    await rig.create("chat", resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
    service = await rig.has_condition("chat", "Accepted", "False", "InvalidPodTemplate")
    assert "must be less than or equal to cpu limit" in condition(service, "Accepted")["message"]
    await rig.change("chat", resources={"limits": {"cpu": "4"}})
    await rig.has_condition("chat", "Ready", "True")


async def test_a_name_at_the_limit_works(rig: Rig) -> None:
    name = "n" * 63
    await rig.create(name)
    await rig.has_condition(name, "Ready", "True")


async def test_suspending_and_resuming_keeps_everything_but_the_pods(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    await rig.is_ready("chat", "2/2")
    await rig.change("chat", suspend=True)
    await rig.has_condition("chat", "WorkloadAvailable", "False", "Suspended")
    await eventually(lambda: rig.pods("chat"), lambda pods: not pods)
    assert await rig.children(SERVICE, "chat")
    await rig.change("chat", suspend=False)
    await rig.is_ready("chat", "2/2")


async def test_scaling_by_the_scale_subresource(rig: Rig) -> None:
    await rig.create("chat", replicas=1)
    await rig.is_ready("chat", "1/1")
    path = f"/apis/octavo.dev/v1alpha1/namespaces/{rig.namespace}/inferenceservices/chat/scale"
    scale = await rig.kube.request("GET", path)
    assert scale["status"] == {"replicas": 1, "selector": "octavo.dev/service=chat"}
    await rig.kube.request("PATCH", path, {"spec": {"replicas": 3}}, content_type="application/merge-patch+json")
    await rig.is_ready("chat", "3/3")


async def test_scaling_by_hand_is_refused_while_the_autoscaler_acts(rig: Rig) -> None:
    await rig.create("chat", autoscaling={"maxReplicas": 3})
    with pytest.raises(Refused, match=r"spec\.replicas: the autoscaler owns it"):
        await rig.change("chat", replicas=2)


async def test_unschedulable_replicas_are_explained(rig: Rig) -> None:
    rig.num_placeable = 0
    await rig.create("chat", accelerator={"count": 1})
    (pod,) = await eventually(lambda: rig.pods("chat"), lambda pods: len(pods) == 1)
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    await rig.set_pod_status(pod["metadata"]["name"], blocked_status(message))
    service = await rig.has_condition("chat", "CapacityAvailable", "False", "InsufficientAccelerator")
    assert message in condition(service, "CapacityAvailable")["message"]
    assert service["status"]["unschedulableReplicas"] == 1
    assert await eventually(lambda: rig.events("InsufficientCapacity"), bool)


async def test_a_new_spec_rolls_out_one_replica_at_a_time_and_drains_the_old_ones(rig: Rig) -> None:
    await rig.create("chat", replicas=2)
    await rig.is_ready("chat", "2/2")
    old = {pod["metadata"]["name"] for pod in await rig.pods("chat")}
    await rig.change("chat", engine={"maxNumSeqs": 4})
    service = await rig.has_condition("chat", "RolloutComplete", "True")
    pods = await rig.pods("chat")
    assert old.isdisjoint(pod["metadata"]["name"] for pod in pods)
    assert all("--max-num-seqs=4" in pod["spec"]["containers"][0]["args"] for pod in pods)
    assert all(rig.engines[name].num_drain_requests == 1 for name in old)
    assert service["status"]["revisions"].keys() == {"current"}
    await eventually(lambda: rig.children(DEPLOYMENT, "chat"), lambda deployments: len(deployments) == 1)


async def test_two_services_of_one_name_live_in_two_namespaces(kube: Kube) -> None:
    first, second = await create_namespace(kube), await create_namespace(kube)
    async with Rig(kube, first) as here, Rig(kube, second) as there:
        await here.create("chat", replicas=1)
        await there.create("chat", replicas=2)
        await here.is_ready("chat", "1/1")
        await there.is_ready("chat", "2/2")
        assert here.engines.keys().isdisjoint(there.engines)
    for name in (first, second):
        await delete_namespace(kube, name)


async def test_a_namespace_goes_while_the_operator_is_down(kube: Kube) -> None:
    namespace = await create_namespace(kube)
    async with Rig(kube, namespace) as rig:
        await rig.create("chat")
        await rig.is_ready("chat", "1/1")
    await delete_namespace(kube, namespace)
    await eventually(lambda: namespaces(kube), lambda names: namespace not in names, within=60)


async def namespaces(kube: Kube) -> set[str]:
    listing = await kube.request("GET", "/api/v1/namespaces")
    return {each["metadata"]["name"] for each in listing["items"]}


async def test_a_deleted_service_takes_its_children_along(rig: Rig) -> None:
    service = await rig.create("chat")
    await rig.is_ready("chat", "1/1")
    await rig.kube.delete(INFERENCE_SERVICE, rig.namespace, "chat", service["metadata"]["uid"])
    for kind in (DEPLOYMENT, POD, SERVICE, DISRUPTION_BUDGET, SECRET):
        await eventually(partial(rig.children, kind, "chat"), lambda found: not found, within=30)


async def test_another_replica_takes_over_at_once_when_the_leader_stops(kube: Kube, namespace: str) -> None:
    async with Rig(kube, namespace, identity="first") as first, Rig(kube, namespace, identity="second"):
        await first.create("chat")
        await first.is_ready("chat", "1/1")
        assert await holder(kube, namespace) in ("first", "second")
        await first.stop()
        await eventually(lambda: holder(kube, namespace), lambda name: name == "second")
        await first.change("chat", replicas=2)
        await first.is_ready("chat", "2/2")


async def holder(kube: Kube, namespace: str) -> str:
    lease = await kube.get(LEASE, namespace, "octavo-operator")
    return str(lease["spec"]["holderIdentity"])


async def test_a_service_created_before_the_operator_is_served(kube: Kube, namespace: str) -> None:
    await kube.create(inference_service("early", namespace))
    async with Rig(kube, namespace) as rig:
        await rig.is_ready("early", "1/1")
