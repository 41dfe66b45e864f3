"""Reads a GGUF file of a Llama model: metadata, and weights under their Hugging Face names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

from octavo_engine.errors import ModelError

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


class GGUFFile:
    """One GGUF file, memory-mapped. Raises `ModelError` for an architecture other than llama."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = GGUFReader(path)
        except (OSError, ValueError, IndexError) as error:
            raise ModelError(f"{path} is not a readable GGUF file ({error}): download it again") from error
        architecture = self.get("general.architecture")
        if architecture != "llama":
            raise ModelError(f"GGUF architecture {architecture!r} is not supported; only llama is")

    def get(self, key: str, default: Any = None) -> Any:
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    def __getitem__(self, key: str) -> Any:
        if key not in self._reader.fields:
            raise ModelError(f"the GGUF file lacks {key!r}: it was written by an unknown converter")
        return self._reader.fields[key].contents()

    def has_tensor(self, name: str) -> bool:
        return any(tensor.name == name for tensor in self._reader.tensors)

    def weights(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Dequantized weights in the file's order, shaped (out, in) as Hugging Face has them."""
        heads = {"attn_q": self["llama.attention.head_count"], "attn_k": self["llama.attention.head_count_kv"]}
        for tensor in self._reader.tensors:
            name = hugging_face_name(tensor.name)
            if name is None:
                continue
            weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
            part = tensor.name.split(".")[-2]
            yield name, split_rotary_halves(weight, heads[part]) if part in heads else weight


def hugging_face_name(name: str) -> str | None:
    """None for `rope_freqs`, which the configuration already tells."""
    if name == "rope_freqs.weight":
        return None
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    prefix, _, rest = name.partition(".")
    layer, _, part = rest.partition(".")
    kind, _, suffix = part.partition(".")
    if prefix != "blk" or kind not in _LAYER_NAMES:
        raise ModelError(f"GGUF tensor {name!r} has no place in a llama model")
    return f"model.layers.{layer}.{_LAYER_NAMES[kind]}.{suffix}"


def split_rotary_halves(weight: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """llama.cpp interleaves the two rotary halves of each head's rows; this puts them one after the other again."""
    rows = weight.reshape(num_heads, -1, 2, *weight.shape[1:])
    return rows.swapaxes(1, 2).reshape(weight.shape)
