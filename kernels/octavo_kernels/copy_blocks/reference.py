from __future__ import annotations

import torch


def copy_blocks_reference(cache: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    cache[targets.long()] = cache[sources.long()]
