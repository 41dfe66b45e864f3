from __future__ import annotations

import torch


def embed_reference(tokens: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    rows = table[tokens.clamp(min=0).long()]
    return out.copy_(rows.masked_fill((tokens < 0)[:, None], 0.0))
