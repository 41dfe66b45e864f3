"""What the operator's tests share: a real API server, and an operator that runs in the test's own process."""

from collections.abc import AsyncIterator

import pytest
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from dev.cluster.embedded import EmbeddedCluster
from octavo_operator.api.crd import custom_resource_definition
from octavo_operator.kube import Kube
from tests.operator.rig import Rig, install_crd


@pytest.fixture
async def kube(api_server: EmbeddedCluster) -> AsyncIterator[Kube]:
    """A connection as the cluster's administrator, with the CRD installed."""
    configuration = Configuration()
    await kube_config.load_kube_config(str(api_server.kubeconfig), client_configuration=configuration)
    connection = Kube(ApiClient(configuration))
    try:
        await install_crd(connection, custom_resource_definition())
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def rig(kube: Kube, namespace: str) -> AsyncIterator[Rig]:
    """An operator for the test's namespace, with fake engines behind the pods."""
    async with Rig(kube, namespace) as running:
        yield running
