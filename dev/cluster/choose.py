"""Which cluster `make cluster` and `make demo` use. The user's current context is never used unasked."""

import os
import shutil
from pathlib import Path

from dev.cluster import embedded, existing, kind
from dev.cluster.interface import Cluster
from dev.images.choose import docker_answers

EMBEDDED_NAME = "demo"


def start_cluster() -> Cluster:
    """Return the cluster that OCTAVO_CONTEXT names, else kind's if it and Docker run here, else the embedded one."""
    if context := os.environ.get("OCTAVO_CONTEXT"):
        return existing.use(context, own_kubeconfig("existing"))
    if has_kind():
        return kind.start(own_kubeconfig("kind"))
    return embedded.start(EMBEDDED_NAME)


def stop_cluster() -> None:
    """Stop what `start_cluster` started; nothing happens if nothing runs."""
    if has_kind():
        kind.KindCluster(own_kubeconfig("kind")).stop()
    embedded.EmbeddedCluster(EMBEDDED_NAME, Path()).stop()


def has_kind() -> bool:
    return shutil.which("kind") is not None and docker_answers()


def own_kubeconfig(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "octavo" / f"{name}.kubeconfig"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
