from __future__ import annotations

import torch


def embed_reference(
    tokens: torch.Tensor, table: torch.Tensor, out: torch.Tensor, rows: torch.Tensor | None = None
) -> torch.Tensor:
    chosen = tokens if rows is None else tokens[rows.long()]
    return out.copy_(table[chosen.clamp(min=0).long()].masked_fill((chosen < 0)[:, None], 0.0))
