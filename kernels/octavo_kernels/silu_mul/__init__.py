"""SiLU-gated product over interleaved gate and up columns."""

from __future__ import annotations

import torch

from octavo_kernels.launch import launch_options, runs_triton
from octavo_kernels.silu_mul.reference import silu_mul_reference

__all__ = ["silu_mul", "silu_mul_reference"]

_BLOCK = 1024


def silu_mul(gate_up: torch.Tensor, out: torch.Tensor, *, pdl: bool = False) -> torch.Tensor:
    """``out[:, i] = silu(gate_up[:, 2i]) * gate_up[:, 2i + 1]``.

    gate_up: [num_tokens, 2 * intermediate_size], gate and up columns interleaved; out: [num_tokens, intermediate_size].
    """
    if not runs_triton(gate_up):
        return silu_mul_reference(gate_up, out)
    from octavo_kernels.silu_mul.kernel import silu_mul_kernel

    num_tokens, intermediate_size = out.shape
    grid = (num_tokens, -(-intermediate_size // _BLOCK))
    silu_mul_kernel[grid](gate_up, out, intermediate_size, BLOCK=_BLOCK, **launch_options(4, pdl=pdl))
    return out
