"""Converts a GGUF file to a Hugging Face directory, the only format that the engine loads. Needs no torch."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import TensorSpec, serialize_file

from octavo_engine.models.gguf_file import GGUFFile
from octavo_engine.models.gguf_tokenizer import tokenizer_config_json, tokenizer_json


def convert_gguf(path: Path, output: Path) -> Path:
    """Writes config.json, generation_config.json, the tokenizer and bfloat16 weights of `path` into `output`.

    The same file gives the same bytes every time. `output` appears complete or not at all; an existing one is replaced.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    try:
        _write_directory(GGUFFile(path), staging)
        staging.chmod(0o755)
        if output.exists():
            shutil.rmtree(output)
        staging.rename(output)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return output


def _write_directory(gguf: GGUFFile, directory: Path) -> None:
    _write_json(directory / "config.json", config_json(gguf))
    _write_json(directory / "generation_config.json", _generation_config_json(gguf))
    _write_json(directory / "tokenizer.json", tokenizer_json(gguf))
    _write_json(directory / "tokenizer_config.json", tokenizer_config_json(gguf))
    _write_weights(gguf, directory / "model.safetensors")


def config_json(gguf: GGUFFile) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": gguf.get("llama.vocab_size") or len(gguf["tokenizer.ggml.tokens"]),
        "hidden_size": gguf["llama.embedding_length"],
        "intermediate_size": gguf["llama.feed_forward_length"],
        "num_hidden_layers": gguf["llama.block_count"],
        "num_attention_heads": gguf["llama.attention.head_count"],
        "num_key_value_heads": gguf["llama.attention.head_count_kv"],
        "max_position_embeddings": gguf["llama.context_length"],
        "rms_norm_eps": float(f"{gguf['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": gguf["llama.rope.freq_base"],
        "tie_word_embeddings": not gguf.has_tensor("output.weight"),
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "bfloat16",
        **_special_token_ids(gguf),
    }


def _special_token_ids(gguf: GGUFFile) -> dict[str, int]:
    keys = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}
    ids = {name: gguf.get(f"tokenizer.ggml.{key}") for name, key in keys.items()}
    return {name: value for name, value in ids.items() if value is not None}


def _generation_config_json(gguf: GGUFFile) -> dict[str, Any]:
    return {"_from_model_config": True, **_special_token_ids(gguf)}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def _write_weights(gguf: GGUFFile, path: Path) -> None:
    tensors = {name: bfloat16_bits(weight) for name, weight in gguf.weights()}
    specs = {
        name: TensorSpec(dtype="bfloat16", shape=bits.shape, data_ptr=bits.ctypes.data, data_len=bits.nbytes)
        for name, bits in tensors.items()
    }
    serialize_file(specs, path, metadata={"format": "pt"})
    path.chmod(0o644)


def bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of float32 values, rounded to nearest even (finite values; numpy has no bfloat16)."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded >> 16).astype(np.uint16)
