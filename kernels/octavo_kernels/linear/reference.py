from __future__ import annotations

import torch
import torch.nn.functional as F

from octavo_kernels.rms_norm.reference import add_rms_norm_reference


def linear_reference(x: torch.Tensor, weight: torch.Tensor, *, gated: bool = False) -> torch.Tensor:
    """The product in fp32; ``gated`` pairs its even (gate) and odd (up) columns."""
    product = F.linear(x.float(), weight.float())
    return F.silu(product[:, 0::2]) * product[:, 1::2] if gated else product


def gemv_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    *,
    norm_weight: torch.Tensor | None = None,
    eps: float = 0.0,
    residual: torch.Tensor | None = None,
    gated: bool = False,
) -> torch.Tensor:
    wide = x.float()
    if norm_weight is not None:
        wide = add_rms_norm_reference(wide.clone(), None, norm_weight, eps, torch.empty_like(wide))
    product = linear_reference(wide, weight, gated=gated)
    return out.copy_(product if residual is None else product + residual.float())
