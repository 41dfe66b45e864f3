"""The forward pass of a Llama-family model on a GPU, over buffers whose addresses CUDA graphs can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from octavo_engine.runner.cuda_weights import CudaLayer, CudaWeights
from octavo_kernels.linear import LinearConfig, LinearShape, Scratch, gated_linear, gemv, linear, linear_addends
from octavo_kernels.rms_norm import add_rms_norm

MAX_LINEAR_SPLITS = 8

Attend = Callable[[int, Tensor, Tensor], None]
"""attend(layer, qkv, out): attention of the new tokens' qkv, before rotation, into out."""


class LinearPlan(NamedTuple):
    """Which kernel computes each product of a layer, and the head, for one number of rows."""

    qkv: LinearConfig = LinearConfig("torch")
    output: LinearConfig = LinearConfig("torch")
    gate_up: LinearConfig = LinearConfig("torch")
    down: LinearConfig = LinearConfig("torch")
    head: LinearConfig = LinearConfig("torch")

    @property
    def is_single_row(self) -> bool:
        """Norms, residuals and activation are fused into the products."""
        return self.qkv.kernel == "gemv"


class CudaModel:
    """`max_num_tokens` in one pass, of which `max_num_seqs` get logits."""

    def __init__(self, weights: CudaWeights, max_num_tokens: int, max_num_seqs: int) -> None:
        self.weights = weights
        config = weights.config

        def buffer(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=weights.dtype, device=weights.device)

        self.hidden = buffer(max_num_tokens, config.hidden_size)
        self.normed = buffer(max_num_tokens, config.hidden_size)
        self.qkv = buffer(max_num_tokens, config.query_size + 2 * config.kv_size)
        self.attended = buffer(max_num_tokens, config.query_size)
        self.activated = buffer(max_num_tokens, config.intermediate_size)
        self.logits = buffer(max_num_seqs, config.vocab_size)
        self.scratch = Scratch(self._scratch_bytes(max_num_tokens), weights.device)

    def shapes(self, num_rows: int) -> dict[str, LinearShape]:
        """The products of `LinearPlan`, by name."""
        config = self.weights.config
        hidden, query, mlp = config.hidden_size, config.query_size, config.intermediate_size
        return {
            "qkv": LinearShape(num_rows, query + 2 * config.kv_size, hidden),
            "output": LinearShape(num_rows, hidden, query, can_split=True),
            "gate_up": LinearShape(num_rows, 2 * mlp, hidden, gated=True),
            "down": LinearShape(num_rows, hidden, mlp, can_split=True),
            "head": LinearShape(num_rows, config.vocab_size, hidden),
        }

    def run(self, num_tokens: int, attend: Attend, plan: LinearPlan, *, pdl: bool) -> Tensor:
        """Final hidden states [num_tokens, hidden_size], normalized, of the embeddings in `hidden`."""
        eps = self.weights.config.rms_norm_eps
        hidden, normed = self.hidden[:num_tokens], self.normed[:num_tokens]
        addends: Tensor | None = None
        for index, layer in enumerate(self.weights.layers):
            add_rms_norm(hidden, addends, layer.input_norm, eps, normed, pdl=pdl)
            qkv = linear(normed, layer.qkv, self.qkv[:num_tokens], plan.qkv, pdl=pdl)
            addends = self._attend(index, layer, qkv, attend, plan, pdl)
            add_rms_norm(hidden, addends, layer.post_attention_norm, eps, normed, pdl=pdl)
            activated = self.activated[:num_tokens]
            gated_linear(normed, layer.gate_up, activated, self.scratch, plan.gate_up, pdl=pdl)
            addends = linear_addends(activated, layer.down, self.scratch, plan.down, pdl=pdl)
        return add_rms_norm(hidden, addends, self.weights.final_norm, eps, normed, pdl=pdl)

    def run_single(self, attend: Attend, plan: LinearPlan, *, pdl: bool) -> Tensor:
        """Logits [1, vocab_size] of one token, five kernels a layer."""
        eps = self.weights.config.rms_norm_eps
        hidden, attended, activated = self.hidden[:1], self.attended[:1], self.activated[:1]
        for index, layer in enumerate(self.weights.layers):
            qkv = gemv(hidden, layer.qkv, self.qkv[:1], plan.qkv, norm_weight=layer.input_norm, eps=eps, pdl=pdl)
            attend(index, qkv, attended)
            gemv(attended, layer.output, hidden, plan.output, residual=hidden, pdl=pdl)
            norm = layer.post_attention_norm
            gemv(hidden, layer.gate_up, activated, plan.gate_up, norm_weight=norm, eps=eps, gated=True, pdl=pdl)
            gemv(activated, layer.down, hidden, plan.down, residual=hidden, pdl=pdl)
        weights, logits = self.weights, self.logits[:1]
        return gemv(hidden, weights.head, logits, plan.head, norm_weight=weights.final_norm, eps=eps, pdl=pdl)

    def compute_logits(self, states: Tensor, plan: LinearPlan, *, pdl: bool) -> Tensor:
        """[num_rows, vocab_size] of normalized states [num_rows, hidden_size]."""
        return linear(states, self.weights.head, self.logits[: states.shape[0]], plan.head, pdl=pdl)

    def _attend(self, index: int, layer: CudaLayer, qkv: Tensor, attend: Attend, plan: LinearPlan, pdl: bool) -> Tensor:
        if layer.qkv_bias is not None:
            qkv += layer.qkv_bias
        attended = self.attended[: qkv.shape[0]]
        attend(index, qkv, attended)
        return linear_addends(attended, layer.output, self.scratch, plan.output, pdl=pdl)

    def _scratch_bytes(self, max_num_tokens: int) -> int:
        config, size = self.weights.config, self.weights.dtype.itemsize
        unfused_gate_up = max_num_tokens * 2 * config.intermediate_size * size
        split_sums = MAX_LINEAR_SPLITS * 128 * config.hidden_size * 4
        return max(unfused_gate_up, max_num_tokens * config.hidden_size * size, split_sums)
