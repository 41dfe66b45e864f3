"""A cluster of kind (Kubernetes in Docker)."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.interface import ClusterError
from dev.cluster.programs import kubectl_program

NAME = "octavo"


@dataclass(frozen=True)
class KindCluster:
    kubeconfig: Path

    @property
    def context(self) -> str:
        return f"kind-{NAME}"

    @property
    def kubectl(self) -> Path:
        return kubectl_program()

    def load_images(self, references: Sequence[str]) -> None:
        _kind("load", "docker-image", *references, "--name", NAME)

    def stop(self) -> None:
        _kind("delete", "cluster", "--name", NAME, "--kubeconfig", str(self.kubeconfig))


def start(kubeconfig: Path) -> KindCluster:
    """Create the cluster, or write the kubeconfig of the one that runs."""
    running = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=False).stdout.split()
    if NAME in running:
        _kind("export", "kubeconfig", "--name", NAME, "--kubeconfig", str(kubeconfig))
    else:
        _kind("create", "cluster", "--name", NAME, "--kubeconfig", str(kubeconfig), "--wait", "3m")
    return KindCluster(kubeconfig)


def _kind(*args: str) -> None:
    if subprocess.run(["kind", *args], check=False).returncode:
        raise ClusterError(f"kind {args[0]} {args[1]} failed, see the lines above")
