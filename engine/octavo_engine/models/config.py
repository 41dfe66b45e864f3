"""`ModelConfig`: what config.json says, in one vocabulary for every architecture of the Llama family."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo_engine.errors import ModelError

SUPPORTED_MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Rotary scaling of Llama 3.1: low frequencies are divided by `factor`, high ones kept, the rest blended."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of one decoder. `max_position` is in tokens; `dtype` is the checkpoint's own."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    max_position: int
    tie_word_embeddings: bool
    has_qkv_bias: bool
    has_output_bias: bool
    has_mlp_bias: bool
    has_qk_norm: bool
    dtype: str
    eos_token_ids: tuple[int, ...]

    @property
    def query_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


def load_model_config(directory: Path) -> ModelConfig:
    """Reads config.json (and generation_config.json for the end tokens) of a Hugging Face directory.

    Raises `ModelError` when a file is missing or broken, or asks for what this engine cannot run.
    """
    raw = read_json(directory / "config.json")
    _refuse_unsupported(raw)
    num_heads = int(_required(raw, "num_attention_heads"))
    hidden_size = int(_required(raw, "hidden_size"))
    model_type = raw["model_type"]
    has_bias = bool(raw.get("attention_bias", False))
    return ModelConfig(
        model_type=model_type,
        vocab_size=int(_required(raw, "vocab_size")),
        hidden_size=hidden_size,
        intermediate_size=int(_required(raw, "intermediate_size")),
        num_layers=int(_required(raw, "num_hidden_layers")),
        num_heads=num_heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or num_heads),
        head_dim=int(raw.get("head_dim") or hidden_size // num_heads),
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope_theta=_rope_theta(raw),
        rope_scaling=_rope_scaling(raw),
        max_position=_max_position(raw),
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        has_qkv_bias=has_bias or model_type == "qwen2",
        has_output_bias=has_bias and model_type != "qwen2",
        has_mlp_bias=bool(raw.get("mlp_bias", False)),
        has_qk_norm=model_type == "qwen3",
        dtype=str(raw.get("dtype") or raw.get("torch_dtype") or "bfloat16"),
        eos_token_ids=_eos_token_ids(directory, raw),
    )


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist: a model directory needs {path.name} from its publisher") from error
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON ({error}): download or convert the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} must hold a JSON object, not {type(content).__name__}")
    return content


def _refuse_unsupported(raw: dict[str, Any]) -> None:
    model_type = raw.get("model_type")
    if model_type not in SUPPORTED_MODEL_TYPES:
        supported = ", ".join(SUPPORTED_MODEL_TYPES)
        raise ModelError(f"model_type {model_type!r} is not supported; supported are {supported}")
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelError(f"hidden_act {raw['hidden_act']!r} is not supported; only silu is")
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise ModelError(f"quantization_config {method!r} is not supported; use an unquantized checkpoint")


def _required(raw: dict[str, Any], key: str) -> Any:
    if key not in raw:
        raise ModelError(f"config.json lacks {key!r}: it is no complete configuration of a {raw['model_type']} model")
    return raw[key]


def _rope(raw: dict[str, Any]) -> dict[str, Any]:
    """Newer files keep everything in `rope_parameters`, older ones in `rope_scaling` beside `rope_theta`."""
    return raw.get("rope_parameters") or raw.get("rope_scaling") or {}


def _rope_theta(raw: dict[str, Any]) -> float:
    return float(_rope(raw).get("rope_theta") or raw.get("rope_theta") or 10000.0)


def _rope_scaling(raw: dict[str, Any]) -> Llama3Scaling | None:
    rope = _rope(raw)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise ModelError(f"rope scaling {kind!r} is not supported; supported are default and llama3")
    return Llama3Scaling(
        factor=float(rope["factor"]),
        low_freq_factor=float(rope["low_freq_factor"]),
        high_freq_factor=float(rope["high_freq_factor"]),
        original_max_position=int(rope["original_max_position_embeddings"]),
    )


def _max_position(raw: dict[str, Any]) -> int:
    """Within its window, sliding attention is full attention: the window is then simply the longest context."""
    longest = int(_required(raw, "max_position_embeddings"))
    window = raw.get("sliding_window") if raw.get("use_sliding_window", True) else None
    return min(longest, int(window)) if window else longest


def _eos_token_ids(directory: Path, raw: dict[str, Any]) -> tuple[int, ...]:
    generation = directory / "generation_config.json"
    source = read_json(generation) if generation.exists() else {}
    value = source.get("eos_token_id", raw.get("eos_token_id"))
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (int(value),)
