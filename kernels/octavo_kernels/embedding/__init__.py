"""Gather of embedding rows for the tokens that the previous step sampled."""

from __future__ import annotations

import torch

from octavo_kernels.embedding.reference import embed_reference
from octavo_kernels.launch import launch_options, next_power_of_two, runs_triton

__all__ = ["embed", "embed_reference"]


def embed(
    tokens: torch.Tensor,
    table: torch.Tensor,
    out: torch.Tensor,
    *,
    rows: torch.Tensor | None = None,
    pdl: bool = False,
) -> torch.Tensor:
    """``out[i] = table[tokens[rows[i]]]``, or ``table[tokens[i]]`` without rows; a negative token becomes zero.

    tokens: int32; rows: int32 [num_tokens]; table: [vocab_size, hidden_size]; out: [num_tokens, hidden_size].
    """
    if not runs_triton(table):
        return embed_reference(tokens, table, out, rows)
    from octavo_kernels.embedding.kernel import embed_kernel

    num_tokens, hidden_size = out.shape
    embed_kernel[(num_tokens,)](
        tokens,
        tokens if rows is None else rows,
        table,
        out,
        HAS_ROWS=rows is not None,
        HIDDEN=hidden_size,
        BLOCK=next_power_of_two(hidden_size),
        **launch_options(4, pdl=pdl),
    )
    return out
