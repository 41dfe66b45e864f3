"""The embedded cluster's node runs pods: the images, devices that do not exist, names of services."""

import json

import pytest

from dev.cluster.embedded import EmbeddedCluster
from dev.images.names import Images
from tests.namespaces import kubectl

pytestmark = pytest.mark.cluster

RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def run_pod(cluster: EmbeddedCluster, namespace: str, image: str, command: list[str], limits: dict[str, str]) -> str:
    """Run a command to its end as a restricted pod, and return what it printed."""
    container = {"name": "main", "image": image, "command": command, "securityContext": RESTRICTED}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "once", "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{**container, "resources": {"limits": limits}}],
        },
    }
    kubectl(cluster, "apply", "--server-side", "--filename", "-", stdin=json.dumps(pod))
    finished = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl(cluster, "wait", "pod/once", finished, "--namespace", namespace, "--timeout=120s")
    return kubectl(cluster, "logs", "once", "--namespace", namespace).strip()


def test_images_run_restricted_without_naming_a_user(
    node_cluster: EmbeddedCluster, node_namespace: str, images: Images
) -> None:
    printed = run_pod(node_cluster, node_namespace, images.operator, ["id", "--user"], {"memory": "256Mi"})
    assert printed == "65532"


def test_pod_gets_gpus_that_the_device_plugin_pretends(
    node_cluster: EmbeddedCluster, node_namespace: str, images: Images
) -> None:
    show = ["printenv", "NVIDIA_VISIBLE_DEVICES"]
    with node_cluster.pretended_gpus(4):
        printed = run_pod(node_cluster, node_namespace, images.operator, show, {"nvidia.com/gpu": "2"})
    assert len(set(printed.split(",")) & {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}) == 2


def test_pod_finds_a_service_by_name(node_cluster: EmbeddedCluster, node_namespace: str, images: Images) -> None:
    resolve = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"
    printed = run_pod(node_cluster, node_namespace, images.operator, ["python3", "-c", resolve], {})
    service = kubectl(node_cluster, "get", "service", "kubernetes", "--output", "jsonpath={.spec.clusterIP}")
    assert printed == service
