"""The engine's side of what joins it to the operator, to dashboards and to clients: flags, paths, metric names.

A change here is a change of the contract: the operator's goldens must follow.
"""

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from octavo_engine import flags
from octavo_engine.flags import FIELDS, flag_of
from octavo_engine.unsupported_flags import UNSUPPORTED
from tests.engine.server_support import FakeEngine, make_app, service_of

FLAGS = """
--access-log --admin-token --api-key --api-key-file --block-size --device --drain-timeout --dtype
--enable-chunked-prefill --enable-prefix-caching --gpu-memory-utilization --host --kv-cache-memory-gib
--load-format --log-format --max-model-len --max-num-batched-tokens --max-num-seqs --max-num-waiting
--max-parallel-samples --max-request-bytes --max-waiting-tokens --metrics-alias --model --num-threads --port
--prefill-chunk-size --revision --seed --served-model-name --stall-timeout --tokenizer
"""

PATHS = {
    "/v1/models": {"GET"},
    "/v1/models/{model}": {"GET"},
    "/v1/completions": {"POST"},
    "/v1/chat/completions": {"POST"},
    "/tokenize": {"POST"},
    "/detokenize": {"POST"},
    "/health/live": {"GET"},
    "/health/ready": {"GET"},
    "/health": {"GET"},
    "/metrics": {"GET"},
    "/version": {"GET"},
    "/drain": {"GET", "POST", "DELETE"},
}

METRICS = {
    "octavo_kv_cache_usage_ratio": ("gauge", {}),
    "octavo_kv_cache_tokens": ("gauge", {"state": {"total", "used", "cached"}}),
    "octavo_kv_cache_repairs": ("counter", {}),
    "octavo_requests": ("gauge", {"state": {"running", "waiting", "swapped"}}),
    "octavo_waiting_prompt_tokens": ("gauge", {}),
    "octavo_requests_finished": ("counter", {"reason": {"stop", "length", "abort", "error"}}),
    "octavo_requests_rejected": ("counter", {"reason": {"queue_full", "draining", "invalid"}}),
    "octavo_prompt_tokens": ("counter", {}),
    "octavo_generation_tokens": ("counter", {}),
    "octavo_prefix_cache_tokens": ("counter", {"result": {"hit", "miss"}}),
    "octavo_preemptions": ("counter", {"kind": {"recompute", "swap"}}),
    "octavo_engine_steps": ("counter", {}),
    "octavo_engine_steps_shed": ("counter", {}),
    "octavo_engine_idle": ("gauge", {}),
    "octavo_step_seconds": ("histogram", {}),
    "octavo_time_to_first_token_seconds": ("histogram", {}),
    "octavo_inter_token_seconds": ("histogram", {}),
    "octavo_request_seconds": ("histogram", {}),
    "octavo_queue_seconds": ("histogram", {}),
    "octavo_prefill_seconds": ("histogram", {}),
    "octavo_info": ("gauge", {}),
}

VLLM_METRICS = {
    "vllm:kv_cache_usage_perc",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:prompt_tokens",
    "vllm:generation_tokens",
    "vllm:num_preemptions",
    "vllm:prefix_cache_hits",
    "vllm:prefix_cache_queries",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
}


def families(app: FastAPI) -> dict[str, tuple[str, dict[str, set[str]]]]:
    """Type and label values of every exported metric, checked to carry the model."""
    found = {}
    for family in text_string_to_metric_families(service_of(app).metrics.render().decode()):
        labels: dict[str, set[str]] = {}
        for sample in family.samples:
            assert sample.labels.get("model", sample.labels.get("model_name")) == "fake", sample
            for name, value in sample.labels.items():
                if name not in ("model", "model_name", "le"):
                    labels.setdefault(name, set()).add(value)
        found[family.name] = family.type, labels
    return found


def test_flags() -> None:
    assert sorted(flag_of(name) for name in FIELDS) == FLAGS.split()


@pytest.mark.parametrize(
    "name",
    [
        "kv-cache-dtype",
        "num-speculative-tokens",
        "quantization",
        "speculative-model",
        "swap-space",
        "tensor-parallel-size",
    ],
)
def test_flags_of_the_contract_that_do_not_work_yet_are_known(name: str) -> None:
    assert name.replace("-", "_") in UNSUPPORTED


def test_smallest_container_command_parses() -> None:
    flags.parse(["--model", "bundled://smollm2-135m-instruct", "--served-model-name", "m", "--port", "8000"], {})


async def test_paths() -> None:
    described = make_app(FakeEngine()).openapi()["paths"]
    assert {path: {method.upper() for method in methods} for path, methods in described.items()} == PATHS


async def test_metrics() -> None:
    found = families(make_app(FakeEngine()))
    info_labels = found["octavo_info"][1]
    assert info_labels.keys() == {
        "version",
        "device",
        "dtype",
        "attention_backend",
        "block_size",
        "max_model_len",
    }
    found["octavo_info"] = ("gauge", {})
    assert found == METRICS


async def test_metrics_under_the_names_of_vllm() -> None:
    found = families(make_app(FakeEngine(), metrics_alias="vllm"))
    assert found.keys() - METRICS.keys() == VLLM_METRICS
