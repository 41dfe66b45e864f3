"""Operator and service onto a cluster: `helm upgrade --install`, `kubectl apply`, wait."""

import subprocess
from pathlib import Path

import yaml

from dev.demo.kubectl import Kubectl
from dev.demo.steps import StepFailed
from dev.images.names import ROOT, Images

CHART = ROOT / "charts" / "octavo"
SYSTEM_NAMESPACE = "octavo-system"
RELEASE = "octavo"
CRD = "inferenceservices.octavo.dev"


def image_values(images: Images) -> list[str]:
    """Return Helm's settings for the two images."""
    values: list[str] = []
    for prefix, reference in (("image", images.operator), ("engine.image", images.engine)):
        repository, _, tag = reference.rpartition(":")
        values += ["--set", f"{prefix}.repository={repository}", "--set", f"{prefix}.tag={tag}"]
    return values


def create_namespace(kubectl: Kubectl, name: str) -> None:
    """Create a namespace in which only pods of the restricted Pod Security standard run."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    )


def install_operator(helm: Path, kubectl: Kubectl, images: Images, *settings: str) -> None:
    """Install the chart, or upgrade what is installed, and wait until the operator is ready."""
    options = ["--wait", "--timeout", "3m", *image_values(images), *settings]
    run_helm(helm, kubectl, "upgrade", "--install", RELEASE, str(CHART), *options)


def uninstall(helm: Path, kubectl: Kubectl) -> None:
    """Remove the demo's service and the operator. The CRD goes unless others have InferenceServices."""
    kubectl.run("delete", "namespace", kubectl.namespace, "--ignore-not-found", timeout=300)
    run_helm(helm, kubectl, "uninstall", RELEASE, "--ignore-not-found", "--wait")
    if not kubectl.get("infsvc", "--all-namespaces")["items"]:
        kubectl.run("delete", "crd", CRD)
    kubectl.run("delete", "namespace", SYSTEM_NAMESPACE, "--ignore-not-found", timeout=300)


def run_helm(helm: Path, kubectl: Kubectl, *args: str) -> None:
    target = ["--kubeconfig", str(kubectl.kubeconfig), "--kube-context", kubectl.context]
    command = [str(helm), *args, "--namespace", SYSTEM_NAMESPACE, *target]
    result = subprocess.run(command, text=True, capture_output=True, check=False)
    if result.returncode:
        raise StepFailed(f"helm {args[0]}: {result.stderr.strip()}")


def wait_ready(kubectl: Kubectl, name: str, seconds: int) -> None:
    """Wait for the service's Ready condition; a failure says what the conditions say."""
    try:
        kubectl.run("wait", "--for=condition=Ready", f"infsvc/{name}", f"--timeout={seconds}s", timeout=seconds + 30)
    except StepFailed as error:
        raise StepFailed(f"{error}\n{conditions(kubectl, name)}") from error


def conditions(kubectl: Kubectl, name: str) -> str:
    status = kubectl.get("infsvc", name).get("status", {})
    lines = [f"{c['type']}={c['status']} {c['reason']}: {c.get('message', '')}" for c in status.get("conditions", [])]
    return "\n".join(lines) or "the operator has not written a status yet"
