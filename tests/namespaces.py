"""Namespaces that live as long as a test."""

import contextlib
import secrets
import subprocess
from collections.abc import Iterator

from dev.cluster.interface import Cluster


@contextlib.contextmanager
def temporary_namespace(cluster: Cluster, prefix: str = "test") -> Iterator[str]:
    """Make a namespace with a random name; delete it at the end, without waiting for what is in it."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    kubectl(cluster, "create", "namespace", name)
    try:
        yield name
    finally:
        kubectl(cluster, "delete", "namespace", name, "--wait=false")


def kubectl(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    """Run kubectl on the cluster and return what it printed; its own words are in the error."""
    command = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "--context", cluster.context, *args]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"kubectl {' '.join(args)}: {result.stderr}"
    return result.stdout
