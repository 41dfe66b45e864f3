"""The embedded cluster: one node in namespaces of this machine, or only a control plane. Needs root."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dev.cluster.interface import ClusterError
from dev.cluster.programs import embedded_programs
from dev.images.choose import choose_builder

SCRIPT = Path(__file__).parent / "cluster.sh"
Mode = Literal["node", "control-plane"]
CTR = ("ctr", "--namespace", "k8s.io")


@dataclass(frozen=True)
class EmbeddedCluster:
    name: str
    kubeconfig: Path

    @property
    def context(self) -> str:
        return f"kubernetes-admin@octavo-{self.name}"

    @property
    def kubectl(self) -> Path:
        return embedded_programs() / "kubectl"

    def load_images(self, references: Sequence[str]) -> None:
        builder = choose_builder()
        for reference in references:
            print(f"loading {reference} into the node", file=sys.stderr, flush=True)
            with self._start(*CTR, "images", "import", "-") as importing:
                assert importing.stdin is not None
                builder.write_archive(reference, importing.stdin, self._digests())
            if importing.returncode:
                raise ClusterError(f"{reference}: the node's containerd did not take the image")

    def _digests(self) -> frozenset[str]:
        """Content that the node has already, so that only new layers are sent."""
        command = [str(SCRIPT), "run", self.name, *CTR, "content", "ls", "--quiet"]
        return frozenset(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    @contextlib.contextmanager
    def pretended_gpus(self, count: int) -> Iterator[None]:
        """Let the node advertise `count` devices nvidia.com/gpu that do not exist, for as long as the context lasts."""
        with self._start("device-plugin", "nvidia.com/gpu", str(count)):  # leaving closes its input, which ends it
            allocatable = f"--for=jsonpath={{.status.allocatable.nvidia\\.com/gpu}}={count}"
            target = [str(self.kubectl), "--kubeconfig", str(self.kubeconfig)]
            subprocess.run([*target, "wait", "node/node", allocatable, "--timeout=60s"], check=True)
            yield

    def _start(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start a program inside the node."""
        return subprocess.Popen(
            [str(SCRIPT), "run", self.name, *command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def stop(self) -> None:
        subprocess.run([str(SCRIPT), "stop", self.name], check=True)


def state_directory(name: str) -> Path:
    """Where cluster.sh keeps the cluster: its files while it runs, its logs (var/log) also later."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "octavo" / "clusters" / name


def start(name: str, mode: Mode = "node") -> EmbeddedCluster:
    """Start the cluster `name`, or answer with the one that runs."""
    return _cluster("start", name, mode)


def find(name: str) -> EmbeddedCluster:
    """Return the running cluster `name`."""
    return _cluster("kubeconfig", name)


def _cluster(command: str, name: str, *args: str) -> EmbeddedCluster:
    result = subprocess.run([str(SCRIPT), command, name, *args], stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"the embedded cluster {name}: {command} failed, see the lines above")
    return EmbeddedCluster(name, Path(result.stdout.strip()))
