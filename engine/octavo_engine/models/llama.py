"""The decoder of the Llama family: Llama 2 and 3, Mistral, Qwen 2 and 3, SmolLM2."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from octavo_engine.attention.interface import AttentionBackend, M
from octavo_engine.models.config import ModelConfig
from octavo_engine.models.ops import Linear, Ops
from octavo_engine.models.rope import rotary_table
from octavo_engine.models.weights import Weights


@dataclass(frozen=True, slots=True)
class Layer:
    input_norm: Tensor
    qkv: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Linear
    post_attention_norm: Tensor
    gate_up: Linear
    down: Linear


class Llama:
    """Weights and the forward pass; stateless apart from the weights. `max_position` bounds the rotary table."""

    def __init__(self, config: ModelConfig, weights: Weights, ops: Ops, max_position: int) -> None:
        self.config = config
        self._ops = ops
        self._embedding = weights.take("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
        self._layers = [_load_layer(config, weights, ops, f"model.layers.{i}.") for i in range(config.num_layers)]
        self._norm = weights.take("model.norm.weight", config.hidden_size)
        self._head = ops.linear(self._head_weight(weights), None)
        self._rotary = rotary_table(config, max_position, self._embedding.device)

    def _head_weight(self, weights: Weights) -> Tensor:
        if self.config.tie_word_embeddings:
            return self._embedding
        return weights.take("lm_head.weight", self.config.vocab_size, self.config.hidden_size)

    def forward(self, token_ids: Tensor, positions: Tensor, attention: AttentionBackend[M], plan: M) -> Tensor:
        """(num_tokens, hidden_size) final hidden states, normalized, of int64 tokens at `positions`."""
        eps = self.config.rms_norm_eps
        rotation = self._ops.rotation(self._rotary, positions)
        residual = self._embedding[token_ids]
        x = self._ops.rms_norm(residual, self._layers[0].input_norm, eps)
        for index, layer in enumerate(self._layers):
            heads = self._project(layer, x, rotation)
            x = layer.output(attention.attend(index, heads, plan).reshape(len(x), self.config.query_size))
            x, residual = self._ops.add_rms_norm(x, residual, layer.post_attention_norm, eps)
            x = layer.down(self._ops.silu_mul(layer.gate_up(x)))
            x, residual = self._ops.add_rms_norm(x, residual, self._next_norm(index), eps)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """(num_tokens, vocab_size) in the engine's dtype."""
        return self._head(hidden)

    def _next_norm(self, index: int) -> Tensor:
        return self._layers[index + 1].input_norm if index + 1 < len(self._layers) else self._norm

    def _project(self, layer: Layer, x: Tensor, rotation: Any) -> Tensor:
        """(num_tokens, num_heads + 2 * num_kv_heads, head_dim): queries and keys rotated, then values."""
        config = self.config
        heads = layer.qkv(x).view(len(x), config.num_heads + 2 * config.num_kv_heads, config.head_dim)
        query_key = heads[:, : config.num_heads + config.num_kv_heads]
        self._normalize_heads(layer, query_key)
        self._ops.rotate(query_key, rotation)
        return heads

    def _normalize_heads(self, layer: Layer, query_key: Tensor) -> None:
        if layer.query_norm is None or layer.key_norm is None:
            return
        eps, num_heads = self.config.rms_norm_eps, self.config.num_heads
        query, key = query_key[:, :num_heads], query_key[:, num_heads:]
        query.copy_(self._ops.rms_norm(query, layer.query_norm, eps))
        key.copy_(self._ops.rms_norm(key, layer.key_norm, eps))


def _load_layer(config: ModelConfig, weights: Weights, ops: Ops, prefix: str) -> Layer:
    hidden, query, kv, mlp = config.hidden_size, config.query_size, config.kv_size, config.intermediate_size

    def linear(in_size: int, has_bias: bool, **sizes: int) -> Linear:
        """One product for several projections of the same input, in the order given."""
        parts = [weights.take(f"{prefix}{_path(name)}.weight", size, in_size) for name, size in sizes.items()]
        weight = torch.cat(parts) if len(parts) > 1 else parts[0]
        if not has_bias:
            return ops.linear(weight, None)
        biases = [weights.take(f"{prefix}{_path(name)}.bias", size) for name, size in sizes.items()]
        return ops.linear(weight, torch.cat(biases))

    def norm(name: str, size: int) -> Tensor:
        return weights.take(f"{prefix}{name}.weight", size)

    return Layer(
        input_norm=norm("input_layernorm", hidden),
        qkv=linear(hidden, config.has_qkv_bias, q_proj=query, k_proj=kv, v_proj=kv),
        query_norm=norm("self_attn.q_norm", config.head_dim) if config.has_qk_norm else None,
        key_norm=norm("self_attn.k_norm", config.head_dim) if config.has_qk_norm else None,
        output=linear(query, config.has_output_bias, o_proj=hidden),
        post_attention_norm=norm("post_attention_layernorm", hidden),
        gate_up=linear(hidden, config.has_mlp_bias, gate_proj=mlp, up_proj=mlp),
        down=linear(mlp, config.has_mlp_bias, down_proj=hidden),
    )


def _path(projection: str) -> str:
    return f"self_attn.{projection}" if projection in ("q_proj", "k_proj", "v_proj", "o_proj") else f"mlp.{projection}"
