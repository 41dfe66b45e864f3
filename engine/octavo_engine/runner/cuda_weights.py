"""A Llama-family model's weights as the GPU kernels want them: fused, gate and up interleaved, rotary in fp32."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from octavo_engine.errors import ModelError
from octavo_engine.models.config import ModelConfig
from octavo_engine.models.rope import rotary_table
from octavo_engine.models.weights import Weights
from octavo_kernels.paged_kv import Rotary


@dataclass(frozen=True, slots=True)
class CudaLayer:
    """Products are (out_features, in_features); row 2i of `gate_up` is gate i, row 2i + 1 up i."""

    input_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    rotary: Rotary
    output: Tensor
    post_attention_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class CudaWeights:
    config: ModelConfig
    embedding: Tensor
    layers: list[CudaLayer]
    final_norm: Tensor
    head: Tensor

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype


def load_cuda_weights(config: ModelConfig, weights: Weights, num_positions: int) -> CudaWeights:
    """Takes every tensor once. Raises `ModelError` for what the kernels cannot run."""
    _refuse_unsupported(config)
    embedding = weights.take("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
    table = rotary_table(config, num_positions, embedding.device)
    cos, sin = (half.contiguous() for half in table.chunk(2, dim=-1))
    layers = [_load_layer(config, weights, f"model.layers.{i}.", cos, sin) for i in range(config.num_layers)]
    final_norm = weights.take("model.norm.weight", config.hidden_size)
    head = embedding
    if not config.tie_word_embeddings:
        head = weights.take("lm_head.weight", config.vocab_size, config.hidden_size)
    return CudaWeights(config, embedding, layers, final_norm, head)


def _refuse_unsupported(config: ModelConfig) -> None:
    if config.has_output_bias or config.has_mlp_bias:
        raise ModelError("biases of the output or MLP projections are not supported on a GPU; pass --device cpu")
    if config.head_dim & (config.head_dim - 1):
        raise ModelError(
            f"head_dim {config.head_dim} is not a power of two, which the GPU kernels need; pass --device cpu"
        )


def _load_layer(config: ModelConfig, weights: Weights, prefix: str, cos: Tensor, sin: Tensor) -> CudaLayer:
    hidden, mlp = config.hidden_size, config.intermediate_size
    sizes = {"q_proj": config.query_size, "k_proj": config.kv_size, "v_proj": config.kv_size}

    def take(name: str, *shape: int) -> Tensor:
        return weights.take(prefix + name, *shape)

    bias = None
    if config.has_qkv_bias:
        bias = torch.cat([take(f"self_attn.{name}.bias", size) for name, size in sizes.items()])
    rotary = Rotary(cos, sin, eps=config.rms_norm_eps)
    if config.has_qk_norm:
        query_norm, key_norm = (take(f"self_attn.{name}_norm.weight", config.head_dim) for name in "qk")
        rotary = Rotary(cos, sin, query_norm, key_norm, config.rms_norm_eps)
    gate_up = torch.stack([take(f"mlp.{name}_proj.weight", mlp, hidden) for name in ("gate", "up")], dim=1)
    return CudaLayer(
        input_norm=take("input_layernorm.weight", hidden),
        qkv=torch.cat([take(f"self_attn.{name}.weight", size, hidden) for name, size in sizes.items()]),
        qkv_bias=bias,
        rotary=rotary,
        output=take("self_attn.o_proj.weight", hidden, config.query_size),
        post_attention_norm=take("post_attention_layernorm.weight", hidden),
        gate_up=gate_up.view(2 * mlp, hidden),
        down=take("mlp.down_proj.weight", hidden, mlp),
    )
