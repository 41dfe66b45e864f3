"""Greedy answers of the real SmolLM2 in float32 are the same however the engine goes about them."""

from typing import Any

import pytest
import torch

from octavo_engine.attention.torch_backend import TorchAttention
from octavo_engine.config import EngineConfig
from octavo_engine.llm import LLM
from octavo_engine.models import load_model_config, resolve_model
from octavo_engine.models.llama import Llama
from octavo_engine.models.ops import TorchOps
from octavo_engine.models.weights import SafetensorsWeights
from octavo_engine.runner.load import make_ready
from octavo_engine.runner.torch_runner import TorchRunner
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.tokenizer import load_tokenizer

pytestmark = pytest.mark.model

MODEL = "bundled://smollm2-135m-instruct"
PARAMS = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)
SYSTEM = "You are a patient teacher who answers in one or two short sentences and never invents facts."
QUESTIONS = [
    "What is the capital of France?",
    "Why is the sky blue?",
    "Write a line about rain.",
    "Count from one to ten.",
]
CONVERSATIONS = [
    [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}] for question in QUESTIONS
]


@pytest.fixture(scope="module")
def model() -> Llama:
    directory = resolve_model(MODEL)
    weights = SafetensorsWeights(directory, torch.float32, torch.device("cpu"))
    with torch.inference_mode():
        return Llama(load_model_config(directory), weights, TorchOps(), 1024)


def make_llm(model: Llama, num_blocks: int = 200, **overrides: Any) -> LLM:
    """An engine over weights that are loaded already."""
    directory = resolve_model(MODEL)
    model_config = load_model_config(directory)
    limits = {"max_num_seqs": 8, "max_num_batched_tokens": 512, "max_model_len": 256, "dtype": "float32"}
    config = EngineConfig.model_validate({"model": MODEL, **limits, **overrides})
    attention = TorchAttention(model_config, num_blocks, config.block_size, torch.float32)
    runner = TorchRunner(config, model, attention, num_blocks, 256)
    ready = make_ready(config, directory, model_config, runner, torch.float32, "cpu", attention.name)
    return LLM.from_parts(config, runner, ready, load_tokenizer(directory))


def answers(llm: LLM) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in llm.chat(CONVERSATIONS, PARAMS)]


@pytest.fixture(scope="module")
def alone(model: Llama) -> list[list[int]]:
    """Each prompt in an engine that does nothing else, without prefix cache or chunks."""
    llm = make_llm(model, enable_prefix_caching=False)
    return [llm.chat(conversation, PARAMS)[0].outputs[0].token_ids for conversation in CONVERSATIONS]


@pytest.mark.parametrize("block_size", [8, 64])
def test_in_a_batch_with_any_block_size(model: Llama, alone: list[list[int]], block_size: int) -> None:
    assert answers(make_llm(model, block_size=block_size)) == alone


@pytest.mark.parametrize("chunk", [1, 7])
def test_with_chunked_prefill(model: Llama, alone: list[list[int]], chunk: int) -> None:
    assert answers(make_llm(model, prefill_chunk_size=chunk)) == alone


def test_with_a_warm_prefix_cache(model: Llama, alone: list[list[int]]) -> None:
    llm = make_llm(model)
    answers(llm)
    hits = llm.stats.prefix_hit_tokens_total
    assert answers(llm) == alone
    assert llm.stats.prefix_hit_tokens_total > hits + 100


def test_under_preemption_and_eviction(model: Llama, alone: list[list[int]]) -> None:
    llm = make_llm(model, num_blocks=20, block_size=8, max_model_len=None)
    assert answers(llm) == alone
    assert llm.stats.preemptions_total > 0
    assert llm.stats.block_repairs_total == 0
