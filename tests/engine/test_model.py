"""Models of each architecture against transformers, configurations, and where models come from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from octavo_engine.attention import BatchLayout
from octavo_engine.attention.torch_backend import TorchAttention
from octavo_engine.errors import ModelError
from octavo_engine.models import load_model_config, resolve_model
from octavo_engine.models.llama import Llama
from octavo_engine.models.ops import TorchOps
from octavo_engine.models.weights import RandomWeights
from tests.engine.model_support import generate, load_model, make_core, random_tokens, write_config, write_model

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama-tied": {"model_type": "llama", "tie_word_embeddings": True},
    "llama-biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama3-rope": {"model_type": "llama", "rope_parameters": LLAMA3_ROPE},
    "mistral": {"model_type": "mistral", "head_dim": 16},
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3", "head_dim": 16},
}


@torch.inference_mode()
def all_logits(model: Llama, token_ids: list[int]) -> torch.Tensor:
    num_tokens = len(token_ids)
    attention = TorchAttention(model.config, 16, 16, torch.float32)
    layout = BatchLayout(np.array([num_tokens]), np.array([num_tokens]), np.arange(16)[None], np.arange(num_tokens))
    hidden = model.forward(torch.tensor(token_ids), torch.arange(num_tokens), attention, attention.plan(layout))
    return model.logits(hidden)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_equals_transformers(tmp_path: Path, name: str) -> None:
    import transformers

    directory = write_model(tmp_path, **ARCHITECTURES[name])
    reference = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    model = load_model(directory)
    token_ids = random_tokens(100, 1, 320)
    with torch.inference_mode():
        wanted = reference(torch.tensor([token_ids])).logits[0]
    torch.testing.assert_close(all_logits(model, token_ids), wanted, atol=1e-3, rtol=1e-3)
    prompt = torch.tensor([token_ids[:40]])
    greedy = reference.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    core = make_core(model, torch.float32, num_blocks=32)
    assert generate(core, [token_ids[:40]], ignore_eos=True) == [greedy[0, 40:].tolist()]


def test_weights_may_be_spread_over_shards(tmp_path: Path) -> None:
    token_ids = random_tokens(20, 2, 320)
    directory = write_model(tmp_path, "llama")
    whole = all_logits(load_model(directory), token_ids)
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {f"model-{index}.safetensors": names[index::3] for index in range(3)}
    for filename, part in shards.items():
        save_file({name: tensors[name] for name in part}, directory / filename)
    index = {"weight_map": {name: filename for filename, part in shards.items() for name in part}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    torch.testing.assert_close(all_logits(load_model(directory), token_ids), whole)


def test_random_weights_are_reproducible(tmp_path: Path) -> None:
    config = load_model_config(write_config(tmp_path))
    first, second = (
        Llama(config, RandomWeights(torch.float32, torch.device("cpu"), seed=3), TorchOps(), max_position=64)
        for _ in range(2)
    )
    token_ids = random_tokens(10, 3, 320)
    torch.testing.assert_close(all_logits(first, token_ids), all_logits(second, token_ids))


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    directory = write_model(tmp_path, "llama")
    tensors = load_file(directory / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(ModelError, match=r"no tensor 'model\.layers\.1\.mlp\.up_proj\.weight'"):
        load_model(directory)


def test_a_tensor_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    directory = write_model(tmp_path, "llama")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"intermediate_size": 64}))
    with pytest.raises(ModelError, match=r"gate_proj.* has shape \(96, 48\); config\.json makes it \(64, 48\)"):
        load_model(directory)


@pytest.mark.parametrize("content", [None, b"", b"not safetensors at all"])
def test_weights_that_cannot_be_read_are_named(tmp_path: Path, content: bytes | None) -> None:
    write_config(tmp_path)
    if content is not None:
        (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="safetensors"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is not supported; supported are llama"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config 'awq'"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "rope scaling 'yarn'"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model_config(write_config(tmp_path, **raw))


def test_an_incomplete_config_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_attention_heads": 4}')
    with pytest.raises(ModelError, match="lacks 'hidden_size'"):
        load_model_config(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_config_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"config\.json"):
        load_model_config(tmp_path)


def test_a_sliding_window_bounds_the_context(tmp_path: Path) -> None:
    assert load_model_config(write_config(tmp_path, sliding_window=128)).max_position == 128
    assert load_model_config(write_config(tmp_path, sliding_window=128, use_sliding_window=False)).max_position == 512


def test_end_tokens_come_from_the_generation_config_first(tmp_path: Path) -> None:
    assert load_model_config(write_config(tmp_path)).eos_token_ids == (2,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    assert load_model_config(tmp_path).eos_token_ids == (5, 6)


def test_a_model_is_found_by_path_and_by_file_uri(tmp_path: Path) -> None:
    write_config(tmp_path)
    assert resolve_model(str(tmp_path)) == tmp_path
    assert resolve_model(f"file://{tmp_path}") == tmp_path


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("meta-llama/Llama-3.1-8B", "write hf://org/name"),
        ("s3://bucket/model", "unknown scheme 's3'; use bundled://"),
        ("hf://only-a-name", "not of the form hf://org/name"),
        ("bundled://gpt-5", "there are: smollm2-135m-instruct"),
        ("file:///does/not/exist", "is not a directory"),
    ],
)
def test_a_model_that_cannot_be_found_names_the_remedy(uri: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        resolve_model(uri)


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json"):
        resolve_model(str(tmp_path))


def test_a_hub_that_cannot_be_reached_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"cannot download hf://org/name.*check the name and the network"):
        resolve_model("hf://org/name")
