"""Plain data that the attention operations share. The cache is [num_blocks, num_kv_heads, block_size, head_dim]."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Rotary(NamedTuple):
    """Rotation applied to the new token. cos, sin: fp32 [max_position, head_dim / 2]; norms: [head_dim] or None."""

    cos: torch.Tensor
    sin: torch.Tensor
    query_norm: torch.Tensor | None = None
    key_norm: torch.Tensor | None = None
    eps: float = 1e-6


class PrefixState(NamedTuple):
    """Softmax states over the tokens that rows share, one state per split of those tokens.

    out: fp32 [num_splits, num_rows, num_heads, head_dim], unnormalized;
    stats: fp32 [num_splits, num_rows, num_heads, 2], the maximum score in log2 units and the sum of exponentials.
    """

    out: torch.Tensor
    stats: torch.Tensor

    @classmethod
    def allocate(
        cls, num_splits: int, num_rows: int, num_heads: int, head_dim: int, device: torch.device
    ) -> PrefixState:
        shape = (num_splits, num_rows, num_heads)
        return cls(
            torch.empty(*shape, head_dim, dtype=torch.float32, device=device),
            torch.empty(*shape, 2, dtype=torch.float32, device=device),
        )


def gather_cache(cache: torch.Tensor, block_table: torch.Tensor, length: int) -> torch.Tensor:
    """The first ``length`` tokens of one sequence: [num_kv_heads, length, head_dim] in fp32."""
    _, num_kv_heads, block_size, head_dim = cache.shape
    blocks = cache[block_table[: -(-length // block_size)].long()]
    return blocks.transpose(0, 1).reshape(num_kv_heads, -1, head_dim)[:, :length].float()
