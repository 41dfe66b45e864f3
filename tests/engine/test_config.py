from typing import Any

import pytest
from pydantic import ValidationError

from octavo_engine.config import CPU_BATCHED_TOKENS, EngineConfig, SchedulerConfig
from octavo_engine.job import make_config


def test_a_budget_below_one_token_per_sequence_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValidationError, match=r"max_num_batched_tokens \(64\) must be at least max_num_seqs \(128\)"):
        EngineConfig(model="m", max_num_seqs=128, max_num_batched_tokens=64)


def test_a_chunk_size_without_chunked_prefill_is_refused() -> None:
    with pytest.raises(ValidationError, match="prefill_chunk_size needs enable_chunked_prefill"):
        SchedulerConfig(enable_chunked_prefill=False, prefill_chunk_size=512)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="block_sise"):
        EngineConfig.model_validate({"model": "m", "block_sise": 16})


@pytest.mark.parametrize(
    ("device", "settings", "budget"),
    [
        ("cuda", {}, 8192),
        ("cpu", {}, CPU_BATCHED_TOKENS),
        ("cpu", {"max_num_batched_tokens": 8192}, 8192),
        ("cpu", {"max_num_seqs": 1000}, 1000),
        ("cpu", {"enable_chunked_prefill": False}, 8192),
    ],
)
def test_a_cpu_takes_small_steps_unless_told_otherwise(device: str, settings: dict[str, Any], budget: int) -> None:
    config = EngineConfig(model="m", **settings).for_device(device)
    assert config.max_num_batched_tokens == budget
    assert config.for_device(device) == config


def test_overriding_one_field_of_a_configuration_sets_no_other() -> None:
    config = make_config(EngineConfig(model="m", block_size=32), {"max_num_seqs": 4})
    assert config.model_fields_set == {"model", "block_size", "max_num_seqs"}
