"""The standard workloads: each is a list of (prompt token ids, output length), the same for every engine, greedy."""

from __future__ import annotations

import random
from dataclasses import dataclass

Request = tuple[list[int], int]
WORKLOADS = ("tuning", "mixed", "concurrent100", "single", "batch32", "long", "shared")


@dataclass(frozen=True)
class Shape:
    """The size of a model; benchmarks fill it with random weights."""

    model_type: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tie_word_embeddings: bool

    def config(self) -> dict[str, object]:
        """A Hugging Face config.json."""
        is_qwen = self.model_type == "qwen3"
        return {
            "architectures": ["Qwen3ForCausalLM" if is_qwen else "LlamaForCausalLM"],
            "model_type": self.model_type,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate_size,
            "vocab_size": self.vocab_size,
            "max_position_embeddings": 16384,
            "rope_theta": 1e6 if is_qwen else 5e5,
            "rms_norm_eps": 1e-6 if is_qwen else 1e-5,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": "bfloat16",
            "eos_token_id": 2,
        }


SHAPES = {
    "llama3-8b": Shape("llama", 4096, 32, 32, 8, 128, 14336, 128256, False),
    "llama3-70b": Shape("llama", 8192, 80, 64, 8, 128, 28672, 128256, False),
    "qwen3-0.6b": Shape("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, True),
}


def make_workload(name: str, vocab_size: int = 32000, seed: int = 0) -> list[Request]:
    """The requests of a standard workload; another seed gives other tokens of the same kind."""
    rng = random.Random(f"{name}/{seed}")

    def tokens(count: int) -> list[int]:
        return [rng.randrange(1000, vocab_size - 1000) for _ in range(count)]

    if name == "tuning":
        return [(tokens(512), 256) for _ in range(256)]
    if name == "mixed":
        return [(tokens(rng.randint(100, 1024)), rng.randint(100, 1024)) for _ in range(256)]
    if name == "concurrent100":
        return [(tokens(256), (10, 50, 200, 500)[i % 4]) for i in range(100)]
    if name == "single":
        return [(tokens(128), 256)]
    if name == "batch32":
        return [(tokens(128), 256) for _ in range(32)]
    if name == "long":
        return [(tokens(8000), 128) for _ in range(16)]
    if name == "shared":
        head = tokens(2048)
        return [(head + tokens(64), 64) for _ in range(128)]
    raise ValueError(f"unknown workload {name!r}; choose one of {', '.join(WORKLOADS)}")
