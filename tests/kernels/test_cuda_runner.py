"""The CUDA runner against the plain one: natively on a GPU, on the kernels' references where there is none."""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo_engine.attention.torch_backend import TorchAttention
from octavo_engine.config import EngineConfig
from octavo_engine.core.engine_core import EngineCore
from octavo_engine.messages import AddRequest
from octavo_engine.models import ModelConfig, load_model_config
from octavo_engine.models.llama import Llama
from octavo_engine.models.ops import TorchOps
from octavo_engine.runner import cuda_prefix
from octavo_engine.runner.cuda import CudaRunner
from octavo_engine.runner.cuda_model import CudaModel, LinearPlan
from octavo_engine.runner.cuda_table import CudaRowTable
from octavo_engine.runner.cuda_tuning import tuned_plans
from octavo_engine.runner.cuda_weights import load_cuda_weights
from octavo_engine.runner.torch_runner import TorchRunner
from octavo_engine.sampling_params import SamplingParams
from octavo_kernels.linear import gemv_candidates
from tests.kernels.support import NATIVE

MAX_MODEL_LEN = 512
RUNNER_DTYPE = torch.float16 if NATIVE else torch.float32
# A token counts as the reference's choice if its logit is within this many standard deviations of the best one.
TOLERANCE = 0.05 if NATIVE else 1e-4


class NamedWeights:
    """Random weights that depend on the tensor's name only, so that two models of one shape get the same."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device

    def take(self, name: str, *shape: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        tensor = torch.randn(shape, generator=generator) * 0.08
        return (tensor + 1.0 if "norm" in name else tensor).to(self._device, self._dtype)


def model_config(directory: Path, model_type: str, num_kv_heads: int = 2) -> ModelConfig:
    raw = {
        "model_type": model_type,
        "vocab_size": 640,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": num_kv_heads,
        "head_dim": 32,
        "max_position_embeddings": MAX_MODEL_LEN,
        "hidden_act": "silu",
        "tie_word_embeddings": model_type == "qwen3",
    }
    (directory / "config.json").write_text(json.dumps(raw))
    return load_model_config(directory)


def engine_config(**overrides: int | bool) -> EngineConfig:
    return EngineConfig.model_validate(
        {"model": "loaded", "max_num_seqs": 40, "max_num_batched_tokens": 512, **overrides}
    )


def cuda_core(
    config: ModelConfig, device: torch.device, num_blocks: int, is_tuned: bool = True, **overrides: int | bool
) -> EngineCore:
    settings = engine_config(**overrides)
    weights = load_cuda_weights(config, NamedWeights(RUNNER_DTYPE, device), MAX_MODEL_LEN + 1)
    model = CudaModel(weights, settings.max_num_batched_tokens, settings.max_num_seqs)
    plans = {}
    if is_tuned:
        plans = tuned_plans(model, settings.max_num_seqs) if NATIVE else single_row_plans(model)
    shape = (num_blocks, config.num_kv_heads, settings.block_size, config.head_dim)
    caches = [
        (
            torch.full(shape, torch.nan, dtype=RUNNER_DTYPE, device=device),
            torch.full(shape, torch.nan, dtype=RUNNER_DTYPE, device=device),
        )
        for _ in range(config.num_layers)
    ]
    table = CudaRowTable(settings.max_num_seqs, MAX_MODEL_LEN, settings.block_size)
    runner = CudaRunner(model, caches, table, plans, MAX_MODEL_LEN)
    if NATIVE:
        runner.warm_up()
    return EngineCore(settings, runner, ())


def single_row_plans(model: CudaModel) -> dict[int, LinearPlan]:
    """What tuning would choose for one row, if the first candidates won."""
    if model.weights.config.has_qkv_bias:
        return {}
    return {1: LinearPlan(**{name: gemv_candidates(shape)[0] for name, shape in model.shapes(1).items()})}


class Reference:
    """The plain model in fp32 on the CPU."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._model = Llama(config, NamedWeights(torch.float32, torch.device("cpu")), TorchOps(), MAX_MODEL_LEN)

    def core(self, num_blocks: int) -> EngineCore:
        settings = engine_config()
        attention = TorchAttention(self._config, num_blocks, settings.block_size, torch.float32)
        return EngineCore(settings, TorchRunner(settings, self._model, attention, num_blocks, MAX_MODEL_LEN), ())

    @torch.inference_mode()
    def worst_gap(self, prompt: list[int], output: list[int]) -> float:
        """How far an output token's logit ever is below the best one, in standard deviations of the logits."""
        tokens = torch.tensor(prompt + output)
        attention = TorchAttention(self._config, len(tokens) // 16 + 1, 16, torch.float32)
        core = TorchRunner(engine_config(), self._model, attention, len(tokens) // 16 + 1, MAX_MODEL_LEN)
        logits = self._model.logits(core_hidden(core, tokens))[len(prompt) - 1 : -1]
        chosen = logits.gather(1, tokens[len(prompt) :, None])[:, 0]
        return float(((logits.amax(-1) - chosen) / logits.std(-1)).max())


def core_hidden(runner: TorchRunner, tokens: torch.Tensor) -> torch.Tensor:
    """Hidden states of all tokens, computed as one chunk."""
    from octavo_engine.core.batch import Batch, NewRow

    blocks = list(range(len(tokens) // 16 + 1))
    row = NewRow(0, tokens.tolist(), blocks, SamplingParams(), num_prompt_tokens=len(tokens))
    batch = Batch([0], [len(tokens)], [0], [False], new_rows=[row])
    runner._table.update(batch)
    return runner._forward(runner._table.inputs(batch))


def generate(core: EngineCore, requests: list[tuple[list[int], int]], **params: Any) -> list[list[int]]:
    outputs: dict[str, list[int]] = {str(index): [] for index in range(len(requests))}
    for index, (prompt, max_tokens) in enumerate(requests):
        settings = {"temperature": 0.0, **params, "max_tokens": max_tokens}
        core.add(AddRequest(str(index), prompt, SamplingParams(**settings)))
    while core.has_work:
        for event in core.step():
            assert event.error is None
            outputs[event.request_id] += event.token_ids
    return list(outputs.values())


def random_requests(count: int, seed: int = 0) -> list[tuple[list[int], int]]:
    rng = random.Random(seed)
    return [([rng.randrange(640) for _ in range(rng.randint(1, 90))], rng.randint(1, 40)) for _ in range(count)]


@pytest.fixture(autouse=True)
def _references_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.fixture(params=["llama", "qwen3", "qwen2"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> ModelConfig:
    return model_config(tmp_path, request.param)


def assert_greedy(config: ModelConfig, requests: list[tuple[list[int], int]], outputs: list[list[int]]) -> None:
    reference = Reference(config)
    for (prompt, max_tokens), output in zip(requests, outputs, strict=True):
        assert len(output) == max_tokens
        assert reference.worst_gap(prompt, output) < TOLERANCE


@pytest.mark.parametrize("is_tuned", [False, True])
def test_greedy_tokens_are_the_reference_models_choice(
    device: torch.device, config: ModelConfig, is_tuned: bool
) -> None:
    requests = random_requests(36)
    assert_greedy(config, requests, generate(cuda_core(config, device, 400, is_tuned), requests))


def test_one_sequence_alone_gets_the_reference_models_choice(device: torch.device, config: ModelConfig) -> None:
    requests = [(list(range(50)), 60)]
    assert_greedy(config, requests, generate(cuda_core(config, device, 60), requests))


def test_preempted_sequences_resume_with_the_same_choice(device: torch.device, tmp_path: Path) -> None:
    config = model_config(tmp_path, "llama")
    requests = [(list(range(i, i + 40)), 60) for i in range(12)]
    core = cuda_core(config, device, 40)
    assert_greedy(config, requests, generate(core, requests))
    assert core.stats().preemptions_total > 0


def test_chunks_of_a_prompt_mix_with_decodes(device: torch.device, tmp_path: Path) -> None:
    config = model_config(tmp_path, "qwen3")
    requests = [(list(range(300)), 20), ([5], 40), (list(range(17, 250)), 9)]
    core = cuda_core(config, device, 100, max_num_batched_tokens=64)
    assert_greedy(config, requests, generate(core, requests))


def test_sequences_that_share_a_prefix_get_the_same_choice_as_apart(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_prefix, "MIN_SHARED_TOKENS", 16)
    monkeypatch.setattr(cuda_prefix, "MIN_SAVED_TOKENS", 16)
    config = model_config(tmp_path, "llama")
    requests = [([*range(120 + 60 * (i % 2)), i, i + 1], 20 + i % 5) for i in range(20)] + [([9, 9], 30)]
    core = cuda_core(config, device, 400)
    generate(core, [requests[0], requests[1]])
    assert_greedy(config, requests, generate(core, requests))


@pytest.mark.gpu
def test_a_seed_gives_the_same_tokens_alone_and_in_a_batch(device: torch.device, tmp_path: Path) -> None:
    config = model_config(tmp_path, "llama")
    request = (list(range(30)), 25)
    core = cuda_core(config, device, 400)
    alone = generate(core, [request], temperature=1.0, seed=7, top_k=50)
    together = generate(core, [request] * 5, temperature=1.0, seed=7, top_k=50)
    assert together == alone * 5
    assert generate(core, [request], temperature=1.0, seed=8, top_k=50) != alone
