"""Attention over paged KV: what the model asks of every backend."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Where the new tokens of one pass belong. The tokens of a sequence are adjacent; sequences in batch order.

    query_lens    (num_seqs,) new tokens of each sequence
    context_lens  (num_seqs,) tokens of each sequence with KV once this pass has written its own
    block_tables  (num_seqs, max_blocks) block ids of each sequence, padded with any valid id
    slots         (num_tokens,) KV slot of each new token: block id * block size + offset
    """

    query_lens: IntArray
    context_lens: IntArray
    block_tables: IntArray
    slots: IntArray


M = TypeVar("M")


class AttentionBackend(Protocol[M]):
    """`M` is the backend's own view of a batch, made once per pass by `plan` and read by every layer.

    KV caches are opaque to everyone else: `caches[layer]` is the layer's, allocated by the backend.
    """

    name: str

    def plan(self, layout: BatchLayout) -> M: ...

    def attend(self, layer: int, heads: Tensor, plan: M) -> Tensor:
        """Writes the new keys and values to their slots, then attends causally over each sequence's whole context.

        heads (num_tokens, num_heads + 2 * num_kv_heads, head_dim) are the queries, the keys, then the values of each
        token, ready but for the softmax scale; returns (num_tokens, num_heads, head_dim).
        """
        ...

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        """Copies (source, destination) blocks in all layers."""
        ...
