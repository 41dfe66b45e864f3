"""The objects of a service."""

from typing import Any

import pytest

from octavo_operator import labels
from octavo_operator.kinds import Object
from octavo_operator.render.deployment import render_deployment
from octavo_operator.render.flags import engine_values, render_flags
from octavo_operator.render.pdb import render_pdb
from octavo_operator.render.profiles import PROFILES
from octavo_operator.render.secret import admin_token, render_secret, secret_name
from octavo_operator.render.service import render_service
from octavo_operator.resource import InferenceService
from octavo_operator.settings import Settings
from tests.operator.builders import service
from tests.operator.goldens import CASES, CPU, FOLDER, GPU, SETTINGS, as_yaml, render_all


def pod_spec(of: InferenceService, settings: Settings = SETTINGS) -> Object:
    spec: Object = render_deployment(of, settings)["spec"]["template"]["spec"]
    return spec


def container(of: InferenceService) -> Object:
    (engine,) = pod_spec(of)["containers"]
    return dict(engine)


@pytest.mark.parametrize("case", CASES)
def test_children_are_as_the_golden_file_says(case: str) -> None:
    """After a wanted change: `python -m tests.operator.goldens`, and read the difference."""
    assert as_yaml(CASES[case]) == (FOLDER / f"{case}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_children_are_owned_so_that_they_go_with_the_service(case: str) -> None:
    for child in render_all(CASES[case]):
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (CASES[case].uid, True, False)
        assert child["metadata"]["labels"][labels.SERVICE] == CASES[case].name
        assert "finalizers" not in child["metadata"]


def test_an_accelerator_is_asked_for_as_the_device_plugin_counts_it() -> None:
    assert container(GPU)["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert pod_spec(GPU)["nodeSelector"]["nvidia.com/gpu.product"] == "NVIDIA-H200"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod_spec(GPU)["tolerations"]


def test_a_service_on_cpu_asks_for_no_accelerator() -> None:
    assert set(container(CPU)["resources"]["limits"]) == {"memory"}
    assert "nodeSelector" not in pod_spec(CPU)
    assert "tolerations" not in pod_spec(CPU)


def test_given_resources_replace_the_defaults_as_a_whole() -> None:
    of = service(resources={"limits": {"cpu": "2"}})
    assert container(of)["resources"] == {"limits": {"cpu": "2"}}


@pytest.mark.parametrize("of", [CPU, GPU])
def test_the_pod_is_restricted(of: InferenceService) -> None:
    spec, engine = pod_spec(of), container(of)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert engine["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_kubelet_waits_for_a_drain_that_takes_all_its_time() -> None:
    of = service(engine={"drainTimeoutSeconds": 600})
    assert pod_spec(of)["terminationGracePeriodSeconds"] > 600
    assert "--drain-timeout=600" in container(of)["args"]


def test_a_model_may_load_for_forty_minutes() -> None:
    probe = container(GPU)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 40 * 60
    assert probe["httpGet"]["path"] == "/health/ready"
    assert container(GPU)["livenessProbe"]["httpGet"]["path"] == "/health/live"


def test_the_service_selects_a_label_that_the_replica_set_does_not() -> None:
    deployment = render_deployment(CPU, SETTINGS)
    assert render_service(CPU)["spec"]["selector"][labels.SERVING] == "true"
    assert deployment["spec"]["template"]["metadata"]["labels"][labels.SERVING] == "true"
    assert labels.SERVING not in deployment["spec"]["selector"]["matchLabels"]


def test_a_node_can_be_emptied_of_a_single_replica() -> None:
    assert render_pdb(CPU)["spec"]["maxUnavailable"] == 1


def test_a_token_is_mounted_as_a_file_and_is_in_no_variable() -> None:
    (volume,) = [v for v in pod_spec(GPU)["volumes"] if v["name"] == "credentials"]
    (source,) = volume["projected"]["sources"]
    assert source["secret"] == {"name": "hub", "items": [{"key": "token", "path": "token"}]}
    env = {variable["name"]: variable for variable in container(GPU)["env"]}
    assert env["HF_TOKEN_PATH"]["value"].endswith("/credentials/token")
    assert "HF_TOKEN" not in env


def test_a_claim_is_mounted_read_only_and_its_path_is_the_model() -> None:
    of = service(model={"uri": "pvc://models/llama/8b"})
    assert "--model=/models/llama/8b" in container(of)["args"]
    (volume,) = [v for v in pod_spec(of)["volumes"] if v["name"] == "model"]
    assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}


@pytest.mark.parametrize("uri", ["bundled://smollm2-135m-instruct", "file:///models/mine", "hf://org/name"])
def test_other_sources_are_the_engines_own_business(uri: str) -> None:
    assert f"--model={uri}" in render_flags(service(model={"uri": uri}))


def test_the_model_is_served_under_the_services_name_unless_told_otherwise() -> None:
    assert "--served-model-name=chat" in render_flags(service("chat"))
    assert "--served-model-name=model-7b" in render_flags(GPU)


def test_explicit_fields_win_over_the_profile() -> None:
    of = service(engine={"profile": "Chat", "maxNumSeqs": 7}, accelerator={"count": 1})
    values = engine_values(of.spec.engine, on_accelerator=True)
    assert (values["max_num_seqs"], values["block_size"]) == (7, 8)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_on_cpu_leaves_gpu_settings_out(profile: str) -> None:
    flags = render_flags(service(engine={"profile": profile}))
    assert not [flag for flag in flags if flag.startswith(("--gpu-memory-utilization", "--dtype"))]


def test_a_profile_without_chunked_prefill_has_no_chunk_size() -> None:
    flags = render_flags(service(engine={"profile": "MultiGPU", "enableChunkedPrefill": False}))
    assert "--no-enable-chunked-prefill" in flags
    assert not [flag for flag in flags if flag.startswith("--prefill-chunk-size")]


def test_the_users_own_flags_and_variables_come_last() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "secretKeyRef": {"name": "s", "key": "k"}}]
    of = service(engine={"args": ["--seed=1"], "env": env})
    assert container(of)["args"][-1] == "--seed=1"
    assert container(of)["env"][-2:] == [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]


def test_the_admin_token_follows_from_the_key_and_the_service() -> None:
    assert admin_token(b"key", CPU) == admin_token(b"key", CPU)
    assert len({admin_token(b"key", CPU), admin_token(b"key", GPU), admin_token(b"other", CPU)}) == 3
    (name,) = [
        v["valueFrom"]["secretKeyRef"]["name"] for v in container(CPU)["env"] if v["name"] == "OCTAVO_ADMIN_TOKEN"
    ]
    assert name == secret_name(CPU) == render_secret(CPU, "token")["metadata"]["name"]


@pytest.mark.parametrize(
    "change",
    [{"replicas": 3}, {"suspend": True}, {"autoscaling": {"maxReplicas": 3}}, {"engine": {"drainTimeoutSeconds": 120}}],
)
def test_what_is_not_of_the_pod_makes_no_new_revision(change: dict[str, Any]) -> None:
    assert service(**change).revision == service().revision


@pytest.mark.parametrize(
    "change",
    [{"engine": {"maxNumSeqs": 8}}, {"model": {"uri": "hf://org/name"}}, {"accelerator": {"count": 1}}],
)
def test_what_is_of_the_pod_makes_a_new_revision(change: dict[str, Any]) -> None:
    assert service(**change).revision != service().revision


def test_another_default_image_makes_no_new_revision() -> None:
    """Upgrading the operator restarts no engine; the template's hash tells that it would render differently."""
    now, later = render_deployment(CPU, SETTINGS), render_deployment(CPU, Settings(engine_image="example.org/new:2"))
    assert now["metadata"]["name"] == later["metadata"]["name"]
    assert now["metadata"]["annotations"] != later["metadata"]["annotations"]


def test_names_at_the_limit_stay_within_it() -> None:
    of = service("a" * 63)
    for child in render_all(of):
        assert len(child["metadata"]["name"]) <= 253
        assert all(len(value) <= 63 for value in child["metadata"]["labels"].values())
    assert len(render_service(of)["metadata"]["name"]) == 63
