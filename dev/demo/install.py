"""Operator and service onto a cluster: `helm upgrade --install`, `kubectl apply`, wait."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from dev.demo.kubectl import Kubectl
from dev.demo.steps import StepFailed

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "octavo"
SYSTEM_NAMESPACE = "octavo-system"
RELEASE = "octavo"


@dataclass(frozen=True)
class Images:
    """References of the two images that the nodes have."""

    operator: str
    engine: str

    def helm_values(self) -> list[str]:
        values: list[str] = []
        for prefix, image in (("image", self.operator), ("engine.image", self.engine)):
            repository, _, tag = image.rpartition(":")
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
    command = [str(helm), "upgrade", "--install", RELEASE, str(CHART), "--namespace", SYSTEM_NAMESPACE]
    target = ["--kubeconfig", str(kubectl.kubeconfig), "--kube-context", kubectl.context]
    options = ["--wait", "--timeout", "3m", *images.helm_values(), *settings]
    result = subprocess.run([*command, *target, *options], text=True, capture_output=True, check=False)
    if result.returncode:
        raise StepFailed(f"helm upgrade --install: {result.stderr.strip()}")


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
