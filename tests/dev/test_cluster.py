"""The embedded cluster, through real control planes."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dev.cluster import embedded
from dev.cluster.embedded import SCRIPT, EmbeddedCluster
from dev.cluster.interface import ClusterError
from tests.namespaces import kubectl

pytestmark = pytest.mark.apiserver


def test_control_plane_keeps_what_it_is_given(api_server: EmbeddedCluster, namespace: str) -> None:
    kubectl(api_server, "create", "configmap", "given", "--namespace", namespace, "--from-literal", "key=value")
    answer = kubectl(api_server, "get", "configmap", "given", "--namespace", namespace, "--output", "json")
    assert json.loads(answer)["data"] == {"key": "value"}


def test_second_cluster_runs_beside_the_first_and_leaves_nothing(api_server: EmbeddedCluster) -> None:
    second = embedded.start("test-second", "control-plane")
    state = embedded.state_directory(second.name)
    link = link_of(second)
    try:
        assert link_of(api_server) != link
        assert kubectl(second, "get", "--raw", "/readyz") == kubectl(api_server, "get", "--raw", "/readyz") == "ok"
        assert embedded.start("test-second", "control-plane") == second
    finally:
        second.stop()
    assert is_gone(state, link)
    assert [each.name for each in state.iterdir()] == ["var"]
    assert [each.name for each in (state / "var").iterdir()] == ["log"]
    assert kubectl(api_server, "get", "--raw", "/readyz") == "ok"
    shutil.rmtree(state)


def test_killed_start_is_cleaned_up_by_stop() -> None:
    cluster = EmbeddedCluster("test-killed", Path())
    start = subprocess.Popen([str(SCRIPT), "start", cluster.name, "control-plane"], stdout=subprocess.DEVNULL)
    state = embedded.state_directory(cluster.name)
    while not (state / "var/lib/kubernetes/admin.conf").exists():
        time.sleep(0.05)
    start.send_signal(signal.SIGKILL)
    start.wait()
    link = link_of(cluster)
    cluster.stop()
    assert is_gone(state, link)
    shutil.rmtree(state)


def test_cluster_that_does_not_run_is_an_error() -> None:
    with pytest.raises(ClusterError, match="test-absent"):
        embedded.find("test-absent")


def link_of(cluster: EmbeddedCluster) -> Path:
    return Path("/sys/class/net", "octavo" + (embedded.state_directory(cluster.name) / "index").read_text().strip())


def is_gone(state: Path, link: Path) -> bool:
    """Whether neither a process nor a network link of the cluster is left."""
    processes = subprocess.run(["pgrep", "--full", f"node.sh {state} "], stdout=subprocess.PIPE, check=False)
    return not processes.stdout and not link.exists()
