"""Matrix products of few rows with a weight [out_features, in_features], where reading the weight is all the time."""

from __future__ import annotations

import torch

from octavo_kernels.launch import launch_options, runs_triton
from octavo_kernels.linear.config import LinearConfig, LinearShape, candidates, gemv_candidates, rows_per_program
from octavo_kernels.linear.reference import gemv_reference
from octavo_kernels.silu_mul import silu_mul

__all__ = [
    "LinearConfig",
    "LinearShape",
    "Scratch",
    "candidates",
    "gated_linear",
    "gemv",
    "gemv_candidates",
    "linear",
    "linear_addends",
]


class Scratch:
    """Memory for results that the next kernel consumes; every request for it reuses the same bytes."""

    def __init__(self, num_bytes: int, device: torch.device) -> None:
        self._bytes = torch.empty(num_bytes, dtype=torch.uint8, device=device)

    def view(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        num_bytes = dtype.itemsize * torch.Size(shape).numel()
        return self._bytes[:num_bytes].view(dtype).view(shape)


def gemv(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    config: LinearConfig,
    *,
    norm_weight: torch.Tensor | None = None,
    eps: float = 0.0,
    residual: torch.Tensor | None = None,
    gated: bool = False,
    pdl: bool = False,
) -> torch.Tensor:
    """One row: ``out = residual + rms_norm(x) @ weight.T``; ``gated`` pairs the weight's rows as gate and up.

    x: [1, in_features]; weight: [out_features, in_features]; out, residual: [1, out_features], or half that if gated.
    """
    if not runs_triton(x):
        return gemv_reference(x, weight, out, norm_weight=norm_weight, eps=eps, residual=residual, gated=gated)
    from octavo_kernels.linear.kernel import gemv_kernel

    gemv_kernel[(out.shape[1] // config.block_n,)](
        x,
        weight,
        out,
        out if residual is None else residual,
        x if norm_weight is None else norm_weight,
        eps,
        K=weight.shape[1],
        BLOCK_N=config.block_n,
        BLOCK_K=config.block_k,
        NORM=norm_weight is not None,
        RESIDUAL=residual is not None,
        GATED=gated,
        **launch_options(config.num_warps, pdl=pdl),
    )
    return out


def linear(
    x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, config: LinearConfig, *, pdl: bool = False
) -> torch.Tensor:
    """``out = x @ weight.T``. x: [num_rows, in_features]; out: [num_rows, out_features]."""
    _require_shape(out, x.shape[0], weight.shape[0])
    if config.kernel == "torch":
        return torch.mm(x, weight.t(), out=out)
    _launch(x, weight, out, config, gated=False, is_partial=False, pdl=pdl)
    return out


def gated_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    scratch: Scratch,
    config: LinearConfig,
    *,
    pdl: bool = False,
) -> torch.Tensor:
    """``out = silu(x @ gate.T) * (x @ up.T)``, gate and up being the even and odd rows of ``weight``.

    weight: [2 * intermediate_size, in_features]; out: [num_rows, intermediate_size].
    """
    _require_shape(out, x.shape[0], weight.shape[0] // 2)
    if config.kernel == "torch":
        gate_up = scratch.view(x.dtype, x.shape[0], weight.shape[0])
        return silu_mul(torch.mm(x, weight.t(), out=gate_up), out, pdl=pdl)
    _launch(x, weight, out, config, gated=True, is_partial=False, pdl=pdl)
    return out


def linear_addends(
    x: torch.Tensor, weight: torch.Tensor, scratch: Scratch, config: LinearConfig, *, pdl: bool = False
) -> torch.Tensor:
    """Parts [num_addends, num_rows, out_features] in scratch whose sum is ``x @ weight.T``, for `add_rms_norm` to add.

    A product split along in_features keeps every multiprocessor busy; leaving its sum to the next kernel is faster
    than reducing it in this one.
    """
    num_rows, out_features = x.shape[0], weight.shape[0]
    if config.kernel == "torch":
        return torch.mm(x, weight.t(), out=scratch.view(x.dtype, num_rows, out_features))[None]
    addends = scratch.view(torch.float32, config.num_splits, num_rows, out_features)
    _launch(x, weight, addends, config, gated=False, is_partial=True, pdl=pdl)
    return addends


def _require_shape(out: torch.Tensor, *shape: int) -> None:
    """A kernel would write past the end of an output that is too small."""
    if out.shape != shape:
        raise ValueError(f"out has shape {tuple(out.shape)}, the product has {shape}; pass an output of that shape")


def _launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    config: LinearConfig,
    *,
    gated: bool,
    is_partial: bool,
    pdl: bool,
) -> None:
    num_rows, (out_features, in_features) = x.shape[0], weight.shape
    block_m = rows_per_program(num_rows)
    grid = (-(-out_features // config.block_n), config.num_splits, -(-num_rows // block_m))
    constants = {"BLOCK_M": block_m, "BLOCK_N": config.block_n, "K": in_features, "NUM_SPLITS": config.num_splits}
    options = {"GATED": gated, "PARTIAL": is_partial, **launch_options(config.num_warps, pdl=pdl)}
    if config.kernel == "oneshot":
        from octavo_kernels.linear.kernel import oneshot_kernel

        oneshot_kernel[grid](x, weight, out, num_rows, out_features, **constants, **options)
        return
    from triton.tools.tensor_descriptor import TensorDescriptor

    from octavo_kernels.linear.kernel import skinny_kernel

    skinny_kernel[grid](
        TensorDescriptor.from_tensor(x, [block_m, config.block_k]),
        TensorDescriptor.from_tensor(weight, [config.block_n, config.block_k]),
        weight,
        out,
        num_rows,
        out_features,
        BLOCK_K=config.block_k,
        STAGES=config.num_stages,
        PREFETCH=config.prefetch,
        **constants,
        **options,
    )
