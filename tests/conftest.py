"""Clusters for tests. Each is started when a test first asks for it, and stopped at the end of the session.

They run beside other clusters of the project; with pytest-xdist every worker that needs one starts its own.
OCTAVO_TEST_CLUSTER=NAME uses a running one instead (`dev/cluster/cluster.sh start NAME`) and so saves ten seconds.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import cast

import pytest

from dev.cluster import embedded
from dev.cluster.embedded import EmbeddedCluster
from dev.images.build import build_images
from dev.images.names import Images
from tests.namespaces import temporary_namespace

Shown = Callable[[], AbstractContextManager[None]]

# Before anything imports torch: threads that wait must sleep, for the tests share few CPUs with each other.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs least first: a mistake shows early, and the cluster's programs are built meanwhile."""
    items.sort(key=_needs)


def _needs(item: pytest.Item) -> int:
    needs = ("model", "charts", "apiserver", "cluster")
    return max((rank for rank, each in enumerate(needs, start=1) if each in item.keywords), default=0)


@pytest.fixture(scope="session")
def shown(request: pytest.FixtureRequest) -> Shown:
    """`with shown():` lets through what a long step says about its progress."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    return cast(Shown, capture.global_and_fixture_disabled)


@pytest.fixture(scope="session")
def api_server(request: pytest.FixtureRequest, shown: Shown) -> Iterator[EmbeddedCluster]:
    """A real API server with controllers, and no node: pods stay Pending unless the test plays the kubelet."""
    with _cluster("control-plane", request.session, shown) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def images(shown: Shown) -> Images:
    """Names of both images, built of the sources as they are when a test first asks."""
    with shown():
        return build_images()


@pytest.fixture(scope="session")
def node_cluster(request: pytest.FixtureRequest, shown: Shown, images: Images) -> Iterator[EmbeddedCluster]:
    """A whole cluster of one node that has both images."""
    with _cluster("node", request.session, shown) as cluster:
        with shown():
            cluster.load_images([images.operator, images.engine])
        yield cluster


@pytest.fixture
def namespace(api_server: EmbeddedCluster) -> Iterator[str]:
    """A namespace of `api_server` with a random name, deleted after the test."""
    with temporary_namespace(api_server) as name:
        yield name


@pytest.fixture
def node_namespace(node_cluster: EmbeddedCluster) -> Iterator[str]:
    """A namespace of `node_cluster` with a random name, deleted after the test."""
    with temporary_namespace(node_cluster) as name:
        yield name


@contextlib.contextmanager
def _cluster(mode: embedded.Mode, session: pytest.Session, shown: Shown) -> Iterator[EmbeddedCluster]:
    if running := os.environ.get("OCTAVO_TEST_CLUSTER"):
        yield embedded.find(running)
        return
    with shown():
        cluster = embedded.start(f"test-{os.getpid()}-{mode}", mode)
    try:
        yield cluster
    finally:
        cluster.stop()
        if not session.testsfailed:
            shutil.rmtree(embedded.state_directory(cluster.name))  # the logs
