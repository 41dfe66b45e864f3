import pytest
from pydantic import ValidationError

from octavo_engine.config import EngineConfig, SchedulerConfig


def test_a_budget_below_one_token_per_sequence_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValidationError, match=r"max_num_batched_tokens \(64\) must be at least max_num_seqs \(128\)"):
        EngineConfig(model="m", max_num_seqs=128, max_num_batched_tokens=64)


def test_a_chunk_size_without_chunked_prefill_is_refused() -> None:
    with pytest.raises(ValidationError, match="prefill_chunk_size needs enable_chunked_prefill"):
        SchedulerConfig(enable_chunked_prefill=False, prefill_chunk_size=512)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="block_sise"):
        EngineConfig.model_validate({"model": "m", "block_sise": 16})
