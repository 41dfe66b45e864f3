from __future__ import annotations

import torch


def add_rms_norm_reference(
    hidden: torch.Tensor, addends: torch.Tensor | None, weight: torch.Tensor, eps: float, out: torch.Tensor
) -> torch.Tensor:
    if addends is not None:
        hidden.copy_(hidden.float() + addends.float().sum(0))
    wide = hidden.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return out.copy_(wide * scale * weight.float())
