"""The CRD: what the files say, and what a real API server accepts and refuses."""

from pathlib import Path
from typing import Any

import pytest

from octavo_operator.api.crd import as_yaml, custom_resource_definition
from octavo_operator.api.engine import MANAGED_FLAGS
from octavo_operator.api.spec import Spec
from octavo_operator.errors import Refused
from octavo_operator.kube import Kube
from tests.operator.rig import MODEL, inference_service

CHART_FILE = Path(__file__).parents[2] / "charts/octavo/files/crd-inferenceservice.yaml"
AUTO: dict[str, Any] = {"maxReplicas": 3}
GPU = {"count": 1}


def test_the_chart_ships_the_crd_that_the_models_describe() -> None:
    """After a change: `python -m octavo_operator.api.crd charts/octavo/files/crd-inferenceservice.yaml`."""
    assert CHART_FILE.read_text(encoding="utf-8") == as_yaml()


def test_the_crd_stays_small() -> None:
    assert len(as_yaml()) < 100_000


def test_every_field_of_the_spec_is_explained() -> None:
    (version,) = custom_resource_definition()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert [path for path, field in walk(spec, "spec") if not field.get("description")] == []


def walk(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, child in schema.get("properties", {}).items():
        found.append((f"{path}.{name}", child))
        found += walk(child, f"{path}.{name}") + walk(child.get("items", {}), f"{path}.{name}[]")
    return found


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"model": {"uri": "file:///models/mine"}},
    {"model": {"uri": "pvc://claim"}},
    {"model": {"uri": "pvc://claim/path/to.it"}},
    {
        "model": {
            "uri": "hf://HuggingFaceTB/SmolLM2-135M-Instruct",
            "revision": "main",
            "credentials": {"secretRef": {"name": "hub"}},
        }
    },
    {"engine": {"maxModelLen": 2048, "blockSize": 8, "kvCacheMemoryGiB": "0.25", "dtype": "float32"}},
    {"engine": {"gpuMemoryUtilization": "0.92"}, "accelerator": GPU},
    {"engine": {"args": ["--seed=1", "--max-num-waiting", "64"]}},
    {"engine": {"prefillChunkSize": 512}},
    {"engine": {"env": [{"name": "A", "value": ""}, {"name": "B", "secretKeyRef": {"name": "s", "key": "k"}}]}},
    {"accelerator": {"count": 1, "product": "NVIDIA-H200", "resourceName": "nvidia.com/gpu"}},
    {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 2}}},
    {"replicas": 0},
    {"autoscaling": AUTO},
    {"autoscaling": AUTO | {"mode": "Advisory"}, "replicas": 2},
    {"autoscaling": AUTO | {"mode": "External"}, "replicas": 2},
    {"autoscaling": AUTO | {"minReplicas": 3, "targets": {"kvCacheUtilization": ".5", "waitingPerReplica": 1}}},
    {"autoscaling": AUTO | {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "1"}}},
    {"scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}},
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": {"uri": "s3://bucket/model"}}, "s3:// and oci:// among them, are not supported"),
    ({"model": {"uri": "oci://registry/model"}}, "model.uri: use bundled://name"),
    ({"model": {"uri": "bundled://Not A Name"}}, "model.uri: bundled:// takes the name"),
    ({"model": {"uri": "file://relative"}}, "model.uri: file:// takes an absolute path"),
    ({"model": {"uri": "pvc:///path"}}, "model.uri: pvc:// takes a claim's name"),
    ({"model": {"uri": "pvc://claim/a/../b"}}, "model.uri: '..' is not allowed"),
    ({"model": {"uri": "hf://only-a-name"}}, "model.uri: hf:// takes organization and name"),
    ({"model": MODEL | {"revision": "main"}}, "model.revision: only hf:// has revisions"),
    ({"model": MODEL | {"credentials": {"secretRef": {"name": "s"}}}}, "model.credentials: only hf:// takes a token"),
    ({"model": {}}, "uri: Required value"),
    ({"engine": {"gpuMemoryUtilization": "0.9"}}, "engine.gpuMemoryUtilization: needs accelerator.count: 1"),
    ({"engine": {"gpuMemoryUtilization": "1.0"}, "accelerator": GPU}, "gpuMemoryUtilization"),
    ({"engine": {"gpuMemoryUtilization": "0.0"}, "accelerator": GPU}, "gpuMemoryUtilization"),
    ({"engine": {"kvCacheMemoryGiB": "1"}, "accelerator": GPU}, "engine.kvCacheMemoryGiB: is for CPU"),
    ({"engine": {"kvCacheMemoryGiB": "0"}}, "kvCacheMemoryGiB"),
    ({"engine": {"blockSize": 12}}, "blockSize: Unsupported value"),
    ({"engine": {"maxNumSeqs": 0}}, "maxNumSeqs"),
    ({"engine": {"dtype": "int3"}}, "dtype: Unsupported value"),
    ({"engine": {"profile": "Fast"}}, "profile: Unsupported value"),
    ({"engine": {"prefillChunkSize": 8, "enableChunkedPrefill": False}}, "engine.prefillChunkSize: needs"),
    ({"engine": {"env": [{"name": "HF_TOKEN", "value": "x"}]}}, "model.credentials.secretRef"),
    ({"engine": {"env": [{"name": "OCTAVO_PORT", "value": "1"}]}}, "set by the operator"),
    ({"engine": {"env": [{"name": "A"}]}}, "exactly one of value and secretKeyRef"),
    ({"engine": {"env": [{"name": "A-B", "value": "1"}]}}, "env"),
    ({"accelerator": {"count": 2}}, "accelerator.count"),
    ({"accelerator": {"product": "NVIDIA-H200"}}, "accelerator.product: needs accelerator.count: 1"),
    ({"resources": {"requests": {"cpu": "much"}}}, "resources.requests.cpu"),
    ({"replicas": -1}, "replicas"),
    ({"replicas": 2, "autoscaling": AUTO}, "the autoscaler owns it"),
    ({"autoscaling": {}}, "maxReplicas: Required value"),
    ({"autoscaling": {"minReplicas": 0, "maxReplicas": 1}}, "minReplicas"),
    ({"autoscaling": {"minReplicas": 4, "maxReplicas": 3}}, "minReplicas: must not be above maxReplicas"),
    ({"autoscaling": AUTO | {"targets": {"kvCacheUtilization": "1.5"}}}, "kvCacheUtilization"),
    (
        {"autoscaling": AUTO | {"metrics": {"scrapeIntervalSeconds": 30, "staleAfterSeconds": 15}}},
        "staleAfterSeconds: must not be below scrapeIntervalSeconds",
    ),
]


@pytest.mark.apiserver
@pytest.mark.parametrize("spec", ACCEPTED, ids=str)
async def test_the_api_server_accepts(kube: Kube, spec: dict[str, Any]) -> None:
    created = await dry_run(kube, **spec)
    Spec.model_validate(created["spec"])


@pytest.mark.apiserver
@pytest.mark.parametrize(("spec", "words"), REFUSED, ids=str)
async def test_the_api_server_refuses(kube: Kube, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as refusal:
        await dry_run(kube, **spec)
    assert words in refusal.value.message


@pytest.mark.apiserver
@pytest.mark.parametrize("flag", MANAGED_FLAGS)
@pytest.mark.parametrize("form", ["--{}=1", "--{}"])
async def test_flags_that_the_operator_renders_are_refused_among_the_args(kube: Kube, flag: str, form: str) -> None:
    for spelling in (flag, flag.replace("-", "_")):
        with pytest.raises(Refused, match=r"engine\.args: this flag is set by the operator"):
            await dry_run(kube, engine={"args": [form.format(spelling)]})


@pytest.mark.apiserver
@pytest.mark.parametrize(
    ("name", "is_accepted"),
    [("a" * 63, True), ("a" * 64, False), ("a.b", False), ("1a", False), ("a1-b", True)],
)
async def test_names_are_those_of_a_service(kube: Kube, name: str, is_accepted: bool) -> None:
    if is_accepted:
        await dry_run(kube, name)
        return
    with pytest.raises(Refused, match=r"metadata\.name: at most 63 characters"):
        await dry_run(kube, name)


@pytest.mark.apiserver
async def test_defaults_are_filled_in(kube: Kube) -> None:
    created = await dry_run(kube, autoscaling=AUTO)
    assert created["spec"]["engine"]["drainTimeoutSeconds"] == 120
    assert created["spec"]["autoscaling"]["targets"] == {"kvCacheUtilization": "0.75", "waitingPerReplica": 2}
    assert created["spec"]["autoscaling"]["minReplicas"] == 1
    assert "replicas" not in created["spec"]


async def dry_run(kube: Kube, name: str = "chat", **spec: Any) -> dict[str, Any]:
    """Let the API server judge a resource, without creating it."""
    body = inference_service(name, "default", **spec)
    path = "/apis/octavo.dev/v1alpha1/namespaces/default/inferenceservices"
    return await kube.request("POST", path, body, [("dryRun", "All")])
