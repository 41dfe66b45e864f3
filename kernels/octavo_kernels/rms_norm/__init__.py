"""Fused residual sum and RMSNorm."""

from __future__ import annotations

import torch

from octavo_kernels.launch import launch_options, next_power_of_two, runs_triton
from octavo_kernels.rms_norm.reference import add_rms_norm_reference

__all__ = ["add_rms_norm", "add_rms_norm_reference"]


def add_rms_norm(
    hidden: torch.Tensor,
    addends: torch.Tensor | None,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    *,
    pdl: bool = False,
) -> torch.Tensor:
    """``hidden += addends.sum(0)`` in place, then ``out = rms_norm(hidden) * weight``.

    hidden, out: [num_tokens, hidden_size]; addends: [num_addends, num_tokens, hidden_size] of any float type (the
    partial sums of a split matrix product) or None; weight: [hidden_size].
    """
    if not runs_triton(hidden):
        return add_rms_norm_reference(hidden, addends, weight, eps, out)
    from octavo_kernels.rms_norm.kernel import add_rms_norm_kernel

    num_tokens, hidden_size = hidden.shape
    add_rms_norm_kernel[(num_tokens,)](
        hidden,
        hidden if addends is None else addends,
        weight,
        out,
        eps,
        num_tokens,
        HIDDEN=hidden_size,
        BLOCK=next_power_of_two(hidden_size),
        NUM_ADDENDS=0 if addends is None else addends.shape[0],
        **launch_options(8 if hidden_size > 2048 else 4, pdl=pdl),
    )
    return out
