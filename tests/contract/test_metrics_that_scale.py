"""What the operator scales on is what the engine exports."""

from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo_engine.messages import EngineReady, EngineStats
from octavo_engine.server.interfaces import Engine
from octavo_engine.server.metrics import Metrics
from octavo_operator.autoscaler.exposition import NAMES, parse_metrics
from octavo_operator.autoscaler.freshness import find_impossible
from octavo_operator.autoscaler.types import EngineMetrics

READY = EngineReady(
    model="m",
    max_model_len=512,
    vocab_size=1000,
    eos_token_ids=[0],
    num_blocks=64,
    block_size=16,
    device="cpu",
    dtype="float32",
    attention_backend="torch",
)
BUSY = EngineStats(
    num_running=4,
    num_waiting=3,
    num_waiting_prompt_tokens=90,
    num_blocks=64,
    num_used_blocks=40,
    num_cached_blocks=10,
    block_size=16,
    steps_total=1200,
    is_idle=False,
)


def exported(stats: EngineStats, model: str = "m", with_alias: bool = False) -> str:
    """The answer of /metrics; of an engine it takes no more than its figures."""
    engine = cast(Engine, SimpleNamespace(stats=stats, ready=READY))
    return Metrics(engine, model, "vllm" if with_alias else None).render().decode()


@pytest.mark.parametrize("with_alias", [False, True])
@pytest.mark.parametrize("model", ["m", 'odd } name " {state="used"} 7'])
def test_the_operator_reads_the_engines_figures(model: str, with_alias: bool) -> None:
    assert parse_metrics(exported(BUSY, model, with_alias)) == EngineMetrics(
        kv_total_tokens=1024,
        kv_used_tokens=640,
        waiting_prompt_tokens=90,
        num_running=4,
        num_waiting=3,
        num_swapped=0,
        steps_total=1200,
        is_idle=False,
    )


def test_an_idle_engine_reads_as_idle_and_possible() -> None:
    metrics = parse_metrics(exported(EngineStats(num_blocks=64)))
    assert metrics.is_idle
    assert not metrics.has_work
    assert find_impossible(metrics) is None


def test_every_name_that_the_operator_reads_is_exported_with_its_type() -> None:
    families = text_string_to_metric_families(exported(BUSY))
    types = {sample.name: family.type for family in families for sample in family.samples if sample.name in NAMES}
    assert types == {
        "octavo_kv_cache_tokens": "gauge",
        "octavo_requests": "gauge",
        "octavo_waiting_prompt_tokens": "gauge",
        "octavo_engine_idle": "gauge",
        "octavo_engine_steps_total": "counter",
    }
