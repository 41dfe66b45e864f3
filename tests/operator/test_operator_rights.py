"""The operator with exactly the rights that the chart gives it, cluster-wide and in one namespace."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from kubernetes.aio.client import ApiClient, Configuration

from dev.cluster.embedded import EmbeddedCluster
from dev.cluster.programs import helm_program
from octavo_operator import metrics
from octavo_operator.errors import Refused
from octavo_operator.kinds import SECRET, Object
from octavo_operator.kube import Kube
from tests.namespaces import kubectl
from tests.operator.rig import Rig

pytestmark = pytest.mark.apiserver

CHART = Path(__file__).parents[2] / "charts/octavo"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@pytest.fixture(params=["cluster-wide", "one namespace"])
async def restricted(
    request: pytest.FixtureRequest, api_server: EmbeddedCluster, kube: Kube, namespace: str
) -> AsyncIterator[Kube]:
    """A connection as the operator's service account, installed in the test's namespace."""
    watched = [] if request.param == "cluster-wide" else ["--set", f"watchNamespaces={{{namespace}}}"]
    rendered = render(namespace, *watched)
    rights = yaml.safe_dump_all(each for each in rendered if each["kind"] in RIGHTS)
    kubectl(api_server, "apply", "-f", "-", stdin=rights)
    token = kubectl(api_server, "-n", namespace, "create", "token", namespace)
    configuration = Configuration(host=kube.configuration.host, api_key={"BearerToken": f"Bearer {token}"})
    configuration.ssl_ca_cert = kube.configuration.ssl_ca_cert
    connection = Kube(ApiClient(configuration))
    yield connection
    await connection.close()
    kubectl(api_server, "delete", "-f", "-", "--ignore-not-found", stdin=rights)


def render(namespace: str, *flags: str) -> list[Object]:
    """Return the objects of a release that is named as its namespace."""
    command = [str(helm_program()), "template", namespace, str(CHART), "--namespace", namespace, *flags]
    command += ["--set", f"serviceAccount.name={namespace}", "--set", "rbac.aggregate=false"]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [each for each in yaml.safe_load_all(rendered) if each]


def lease_name(namespace: str) -> str:
    """Return the name of the Lease that the chart lets the operator have."""
    (deployment,) = [each for each in render(namespace) if each["kind"] == "Deployment"]
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return str(next(variable["value"] for variable in env if variable["name"] == "OCTAVO_LEASE_NAME"))


def num_refused() -> float:
    return sum(
        sample.value
        for family in metrics.API_REQUESTS.collect()
        for sample in family.samples
        if sample.labels.get("code") == "403" and sample.name.endswith("_total")
    )


async def test_the_charts_rights_are_enough(kube: Kube, restricted: Kube, namespace: str) -> None:
    before = num_refused()
    async with Rig(kube, namespace, operator_kube=restricted, lease_name=lease_name(namespace)) as rig:
        await rig.create("chat", replicas=2)
        await rig.is_ready("chat", "2/2")
        await rig.change("chat", replicas=1)
        await rig.is_ready("chat", "1/1")
        await rig.change("chat", engine={"maxNumSeqs": 4})
        await rig.has_condition("chat", "RolloutComplete", "True")
    assert num_refused() == before


async def test_no_right_reads_a_secret(restricted: Kube, namespace: str, kube: Kube) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "private", "namespace": namespace}}
    await kube.create(body)
    for attempt in (
        restricted.get(SECRET, namespace, "private"),
        restricted.list_all(SECRET, namespace),
        restricted.merge(SECRET, namespace, "private", {"data": {}}),
    ):
        with pytest.raises(Refused, match="forbidden"):
            await attempt
