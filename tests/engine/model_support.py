"""Tiny random models, and an engine core around a loaded one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from octavo_engine.attention.torch_backend import TorchAttention
from octavo_engine.config import EngineConfig
from octavo_engine.core.engine_core import EngineCore
from octavo_engine.messages import AddRequest
from octavo_engine.models import load_model_config
from octavo_engine.models.llama import Llama
from octavo_engine.models.ops import TorchOps
from octavo_engine.models.weights import SafetensorsWeights
from octavo_engine.runner.torch_runner import TorchRunner
from octavo_engine.sampling_params import SamplingParams

TINY = {
    "vocab_size": 320,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "eos_token_id": 2,
    "dtype": "float32",
}
GREEDY = {"temperature": 0.0, "max_tokens": 12}


def write_model(directory: Path, model_type: str, **overrides: Any) -> Path:
    """A tiny random model, saved by transformers; returns its directory."""
    import transformers

    raw = {**TINY, "model_type": model_type, **overrides}
    config = transformers.AutoConfig.for_model(**raw)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(directory)
    return directory


def write_config(directory: Path, **raw: Any) -> Path:
    (directory / "config.json").write_text(json.dumps({**TINY, "model_type": "llama", **raw}))
    return directory


def load_model(directory: Path) -> Llama:
    weights = SafetensorsWeights(directory, torch.float32, torch.device("cpu"))
    return Llama(load_model_config(directory), weights, TorchOps(), max_position=512)


def make_core(
    model: Llama, dtype: torch.dtype, num_blocks: int, max_model_len: int = 512, **overrides: Any
) -> EngineCore:
    """A new engine core around a model that is already loaded."""
    config = EngineConfig(**{"model": "loaded", "device": "cpu", "max_num_seqs": 64, **overrides})
    attention = TorchAttention(model.config, num_blocks, config.block_size, dtype)
    runner = TorchRunner(config, model, attention, num_blocks, max_model_len)
    return EngineCore(config, runner, model.config.eos_token_ids)


def generate(core: EngineCore, prompts: list[list[int]], **params: Any) -> list[list[int]]:
    """The tokens of all prompts, which arrive at the same time."""
    outputs: dict[str, list[int]] = {str(index): [] for index in range(len(prompts))}
    for index, prompt in enumerate(prompts):
        core.add(AddRequest(str(index), prompt, SamplingParams(**{**GREEDY, **params})))
    while core.has_work:
        for event in core.step():
            assert event.error is None
            outputs[event.request_id] += event.token_ids
    return list(outputs.values())


def random_tokens(num_tokens: int, seed: int, vocab_size: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, vocab_size, num_tokens)]
