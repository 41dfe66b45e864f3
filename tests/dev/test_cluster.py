"""The embedded cluster, through a real API server."""

import json

import pytest

from dev.cluster.embedded import EmbeddedCluster
from tests.namespaces import kubectl

pytestmark = pytest.mark.apiserver


def test_control_plane_keeps_what_it_is_given(api_server: EmbeddedCluster, namespace: str) -> None:
    kubectl(api_server, "create", "configmap", "given", "--namespace", namespace, "--from-literal", "key=value")
    answer = kubectl(api_server, "get", "configmap", "given", "--namespace", namespace, "--output", "json")
    assert json.loads(answer)["data"] == {"key": "value"}


def test_namespace_of_a_test_has_a_service_account_soon(api_server: EmbeddedCluster, namespace: str) -> None:
    kubectl(api_server, "wait", "serviceaccount/default", "--for=create", "--namespace", namespace, "--timeout=30s")
