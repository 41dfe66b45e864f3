"""Copy of whole KV blocks, for copy-on-write when a sequence forks."""

from __future__ import annotations

import torch

from octavo_kernels.copy_blocks.reference import copy_blocks_reference
from octavo_kernels.launch import next_power_of_two, runs_triton

__all__ = ["copy_blocks", "copy_blocks_reference"]


def copy_blocks(cache: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """``cache[targets[i]] = cache[sources[i]]`` for every pair; no target may be a source of the same call.

    cache: [num_blocks, ...] contiguous; sources, targets: int32 [num_pairs].
    """
    if not runs_triton(cache):
        copy_blocks_reference(cache, sources, targets)
        return
    from octavo_kernels.copy_blocks.kernel import copy_blocks_kernel

    size = cache[0].numel()
    block = min(next_power_of_two(size), 2048)
    copy_blocks_kernel[(sources.shape[0], -(-size // block))](cache, sources, targets, size, BLOCK=block, num_warps=4)
