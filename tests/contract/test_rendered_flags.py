"""Whatever the operator renders, the engine understands."""

from typing import Any

import pytest

from octavo_engine import flags
from octavo_engine.flags import ServeConfig
from octavo_operator.api.engine import MANAGED_FLAGS, EngineSpec
from octavo_operator.render.deployment import render_deployment
from octavo_operator.render.flags import FLAG_FIELDS, PORT
from octavo_operator.render.profiles import PROFILES
from octavo_operator.resource import InferenceService
from octavo_operator.settings import Settings
from tests.operator.builders import service

GPU: dict[str, Any] = {"accelerator": {"count": 1}}
FIELDS: dict[str, Any] = {
    "dtype": "half",
    "blockSize": 32,
    "maxModelLen": 1024,
    "maxNumSeqs": 7,
    "maxNumBatchedTokens": 512,
    "prefillChunkSize": 128,
    "enablePrefixCaching": False,
    "enableChunkedPrefill": True,
}


def start(of: InferenceService) -> ServeConfig:
    """Parse a rendered container as the engine does when it starts."""
    (container,) = render_deployment(of, Settings())["spec"]["template"]["spec"]["containers"]
    environ = {variable["name"]: variable.get("value", "secret") for variable in container["env"]}
    return flags.parse(container["args"], environ)


def test_every_field_arrives_as_it_was_given() -> None:
    config = start(service(engine=FIELDS | {"gpuMemoryUtilization": "0.8", "drainTimeoutSeconds": 60}, **GPU))
    engine = config.engine
    assert engine.dtype == "half"
    assert engine.block_size == 32
    assert engine.gpu_memory_utilization == 0.8
    assert (engine.max_model_len, engine.max_num_seqs, engine.max_num_batched_tokens) == (1024, 7, 512)
    assert (engine.prefill_chunk_size, engine.enable_prefix_caching, engine.enable_chunked_prefill) == (
        128,
        False,
        True,
    )
    assert (config.server.port, config.server.drain_timeout) == (PORT, 60)


def test_the_size_of_the_cache_on_cpu_arrives() -> None:
    assert start(service(engine={"kvCacheMemoryGiB": "0.25"})).engine.kv_cache_memory_gib == 0.25


def test_the_admin_token_arrives_by_the_environment() -> None:
    assert start(service()).server.admin_token == "secret"


@pytest.mark.parametrize(
    ("uri", "model"),
    [
        ("bundled://smollm2-135m-instruct", "bundled://smollm2-135m-instruct"),
        ("file:///models/mine", "file:///models/mine"),
        ("pvc://claim/mine", "/models/mine"),
        ("hf://org/name", "hf://org/name"),
    ],
)
def test_models_arrive_by_name(uri: str, model: str) -> None:
    config = start(service("chat", model={"uri": uri}))
    assert (config.engine.model, config.engine.served_model_name) == (model, "chat")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("on", [GPU, {}], ids=["gpu", "cpu"])
def test_every_profile_starts(profile: str, on: dict[str, Any]) -> None:
    engine = start(service(engine={"profile": profile}, **on)).engine
    assert engine.block_size == PROFILES[profile]["block_size"]  # type: ignore[index]


def test_every_flag_that_is_kept_from_the_args_is_a_flag() -> None:
    known = {option.lstrip("-") for action in flags.make_parser()._actions for option in action.option_strings}
    assert set(MANAGED_FLAGS) <= known


def test_every_flag_that_is_rendered_is_kept_from_the_args() -> None:
    assert {name.replace("_", "-") for name in FLAG_FIELDS} <= set(MANAGED_FLAGS)
    assert set(FLAG_FIELDS) <= EngineSpec.model_fields.keys() <= {
        *FLAG_FIELDS, "image", "profile", "args", "env", "drain_timeout_seconds",
    }  # fmt: skip
