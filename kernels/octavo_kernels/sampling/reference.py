from __future__ import annotations

import torch


def greedy_reference(logits: torch.Tensor, out: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    chosen = torch.where(logits.isfinite().all(-1), logits.float().argmax(-1), -1).to(out.dtype)
    return out.copy_(chosen) if rows is None else out.index_copy_(0, rows.long(), chosen)


def keep_mask_reference(
    logits: torch.Tensor, temperature: float, top_k: int, top_p: float, min_p: float
) -> torch.Tensor:
    """Which tokens of one row [vocab_size] may be drawn: top-k, top-p of what is left, then min-p. Ties are kept."""
    scaled = logits.float() / temperature
    keep = torch.ones_like(scaled, dtype=torch.bool)
    if 0 < top_k < scaled.numel():
        keep &= scaled >= scaled.topk(top_k).values[-1]
    if top_p < 1:
        values = scaled.masked_fill(~keep, -torch.inf).sort(descending=True).values
        probs = values.softmax(-1)
        mass_above = probs.cumsum(-1) - probs
        keep &= scaled >= values[mass_above < top_p][-1]
    if min_p > 0:
        keep &= scaled >= scaled.max() + torch.log(torch.tensor(min_p))
    return keep
