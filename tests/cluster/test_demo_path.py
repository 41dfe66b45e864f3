"""The demo's own steps on a real node, in the order of a user's day, with what must hold at each of them."""

import asyncio
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from dev.cluster.embedded import EmbeddedCluster
from dev.cluster.programs import helm_program
from dev.demo.install import (
    CRD,
    RELEASE,
    SYSTEM_NAMESPACE,
    create_namespace,
    install_operator,
    run_helm,
    uninstall,
    wait_ready,
)
from dev.demo.kubectl import Kubectl
from dev.demo.load import LoadPlan
from dev.demo.route import service_url
from dev.demo.run import NAMESPACE, Demo
from dev.demo.steps import Steps
from dev.images.names import ROOT, Images

pytestmark = pytest.mark.cluster

OPERATOR = "deployment/octavo-operator"
OPERATOR_PODS = "app.kubernetes.io/name=octavo-operator"


@pytest.fixture(scope="module")
def demo(node_cluster: EmbeddedCluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo whose operator is installed; at the end it is uninstalled as `make demo-stop` does."""
    kubectl = Kubectl(node_cluster.kubectl, node_cluster.kubeconfig, node_cluster.context, NAMESPACE)
    console = Console(file=io.StringIO(), width=200)
    plan = LoadPlan(min_streams=100)
    demo = Demo(console, Steps(console), helm_program(), kubectl, tmp_path_factory.mktemp("out"), plan)
    demo.install(images)
    yield demo
    uninstall(demo.helm, kubectl)


@pytest.fixture
def service(demo: Demo) -> str:
    return demo.serve()


def manifest(name: str) -> dict[str, Any]:
    resource: dict[str, Any] = yaml.safe_load((ROOT / "manifests" / name).read_text(encoding="utf-8"))
    return resource


def system(demo: Demo, *args: str) -> str:
    return demo.kubectl.run("--namespace", SYSTEM_NAMESPACE, *args)


async def kill_operator_when_replicas_grew(demo: Demo) -> None:
    """End it without notice in the middle of the load; its Deployment starts it again."""
    while not any(sample.ready > 1 for sample in demo.timeline.samples):  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    kill = ("delete", "pod", "--selector", OPERATOR_PODS, "--grace-period", "0", "--force")
    await asyncio.to_thread(system, demo, *kill)


async def test_replicas_follow_load_and_no_stream_is_cut_while_the_operator_is_killed(demo: Demo, service: str) -> None:
    with demo.kubectl.proxy() as proxy:
        url = service_url(demo.kubectl, service, proxy)
        assert "Paris" in await asyncio.to_thread(demo.ask, url, service)
        await asyncio.gather(demo.drive(url, proxy, service), kill_operator_when_replicas_grew(demo))
    demo.save()
    report = demo.timeline.as_json()
    assert report["errors"] == []
    assert report["cut_streams"] == 0
    assert report["streams"] >= demo.plan.min_streams
    assert max(demo.timeline.replica_counts()) == 3
    assert demo.timeline.replica_counts()[-1] == 1
    assert max(sample.kv for sample in demo.timeline.samples) > 0.5
    assert (demo.out / "demo.png").stat().st_size > 10_000


def test_service_is_balanced_through_the_api_server_too(demo: Demo, service: str) -> None:
    """The way of clusters to which this machine has no route."""
    with demo.kubectl.proxy() as proxy:
        url = f"{proxy}/api/v1/namespaces/{NAMESPACE}/services/{service}:http/proxy"
        assert "Paris" in demo.ask(url, service)


def test_gpu_service_waits_for_a_gpu_and_runs_where_one_is_advertised(
    demo: Demo, node_cluster: EmbeddedCluster
) -> None:
    resource = manifest("smollm2-gpu.yaml")
    create_namespace(demo.kubectl, NAMESPACE)
    demo.kubectl.apply(yaml.safe_dump(resource))
    name = resource["metadata"]["name"]
    wait = ("wait", f"infsvc/{name}", "--timeout=60s")
    demo.kubectl.run(*wait, "--for=condition=CapacityAvailable=False")
    with node_cluster.pretended_gpus(1):
        demo.kubectl.run(*wait, "--for=condition=CapacityAvailable=True")
        (pod,) = demo.kubectl.get("pods", "--selector", f"octavo.dev/service={name}")["items"]
        assert pod["spec"]["nodeName"] == "node"
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
        demo.kubectl.run("delete", "infsvc", name)


def test_two_operators_take_turns_and_helm_test_passes(demo: Demo, images: Images) -> None:
    install_operator(demo.helm, demo.kubectl, images, "--set", "replicaCount=2")
    run_helm(demo.helm, demo.kubectl, "test", RELEASE)
    lease = ("get", "lease", "octavo-operator", "--output", "jsonpath={.spec.holderIdentity}")
    leader = system(demo, *lease)
    system(demo, "delete", "pod", leader)
    deadline = time.monotonic() + 30
    while (now := system(demo, *lease)) in ("", leader):
        assert time.monotonic() < deadline, "nobody took over"
        time.sleep(0.5)
    assert now.startswith("octavo-operator-")
    install_operator(demo.helm, demo.kubectl, images)


def test_operator_with_roles_in_one_namespace_serves_that_namespace(demo: Demo, images: Images) -> None:
    """No ClusterRole remains of the earlier release; the Roles are enough for all that a service needs."""
    create_namespace(demo.kubectl, NAMESPACE)
    install_operator(demo.helm, demo.kubectl, images, "--set", f"watchNamespaces={{{NAMESPACE}}}")
    assert "octavo-operator" not in demo.kubectl.run("get", "clusterroles", "--output", "name")
    name = demo.serve()
    assert demo.kubectl.get("infsvc", name)["status"]["readyReplicas"] == 1
    install_operator(demo.helm, demo.kubectl, images)


@pytest.mark.parametrize("path", sorted((ROOT / "manifests").glob("*.yaml")), ids=lambda path: path.stem)
def test_api_server_accepts_the_example(demo: Demo, path: Path) -> None:
    create_namespace(demo.kubectl, NAMESPACE)
    demo.kubectl.run("apply", "--dry-run=server", "--validate=strict", "--filename", str(path))


def test_namespace_with_a_service_is_deleted_while_no_operator_runs(demo: Demo, service: str) -> None:
    system(demo, "scale", OPERATOR, "--replicas=0")
    system(demo, "wait", "--for=delete", "pod", "--selector", OPERATOR_PODS, "--timeout=60s")
    started = time.monotonic()
    # Kubernetes looks again only after half of the pods' grace period, which follows from engine.drainTimeoutSeconds.
    demo.kubectl.run("delete", "namespace", NAMESPACE, "--timeout=60s")
    assert time.monotonic() - started < 60
    system(demo, "scale", OPERATOR, "--replicas=1")
    system(demo, "rollout", "status", OPERATOR, "--timeout=60s")


def test_uninstalling_keeps_the_resources_and_installing_again_takes_them_up(
    demo: Demo, service: str, images: Images
) -> None:
    run_helm(demo.helm, demo.kubectl, "uninstall", RELEASE, "--wait")
    assert demo.kubectl.get("crd", CRD)["metadata"]["name"] == CRD
    pods = demo.kubectl.get("pods", "--selector", f"octavo.dev/service={service}")["items"]
    install_operator(demo.helm, demo.kubectl, images)
    wait_ready(demo.kubectl, service, seconds=60)
    after = demo.kubectl.get("pods", "--selector", f"octavo.dev/service={service}")["items"]
    assert [pod["metadata"]["uid"] for pod in after] == [pod["metadata"]["uid"] for pod in pods]
