"""Paged attention in plain torch, for CPUs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from octavo_engine.attention.interface import BatchLayout, IntArray
from octavo_engine.models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences computed in one call: decodes of similar length together, each chunk of prefill alone.

    tokens  where the group's queries are in the batch: (num_seqs * query_len,), or a slice when adjacent
    blocks  (num_seqs * num_blocks,) block ids to read, sequence by sequence
    mask    (num_seqs, 1, 1 or query_len, num_blocks * block_size), 0 where a query may look and -inf elsewhere
    """

    tokens: Tensor | slice
    num_seqs: int
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class TorchPlan:
    slots: Tensor
    groups: list[Group]


class TorchAttention:
    """Keys and values live in one slab each per layer: (num_blocks, block_size, num_kv_heads, head_dim)."""

    name = "torch"

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype) -> None:
        shape = (num_blocks, block_size, config.num_kv_heads, config.head_dim)
        self._keys = [_lazy_zeros(shape, dtype) for _ in range(config.num_layers)]
        self._values = [_lazy_zeros(shape, dtype) for _ in range(config.num_layers)]
        self._block_size = block_size
        self._num_kv_heads = config.num_kv_heads
        self._num_heads_per_kv = config.num_heads // config.num_kv_heads
        self._head_dim = config.head_dim
        self._dtype = dtype

    def plan(self, layout: BatchLayout) -> TorchPlan:
        return TorchPlan(torch.from_numpy(layout.slots), list(self._groups(layout)))

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, plan: TorchPlan) -> Tensor:
        """What is not finite is stored as zero, for even at masked positions it would spoil the block's next owner."""
        keys, values = self._keys[layer], self._values[layer]
        keys.flatten(0, 1).index_copy_(0, plan.slots, key.nan_to_num(0.0, 0.0, 0.0))
        values.flatten(0, 1).index_copy_(0, plan.slots, value.nan_to_num(0.0, 0.0, 0.0))
        if len(plan.groups) == 1:
            return self._attend_group(plan.groups[0], query, keys, values)
        output = torch.empty_like(query, memory_format=torch.contiguous_format)
        for group in plan.groups:
            output[group.tokens] = self._attend_group(group, query[group.tokens], keys, values)
        return output

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        source, destination = torch.tensor(pairs).unbind(1)
        for slab in (*self._keys, *self._values):
            slab[destination] = slab[source]

    def _attend_group(self, group: Group, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The query heads that share a KV head become rows of one product, so that each key is read once."""
        heads = query.view(group.num_seqs, -1, self._num_kv_heads, self._num_heads_per_kv, self._head_dim)
        query_len = heads.shape[1]
        rows = heads.permute(0, 2, 3, 1, 4).flatten(2, 3)
        mask = group.mask if query_len == 1 else group.mask.repeat(1, 1, self._num_heads_per_kv, 1)
        attended = F.scaled_dot_product_attention(
            rows, self._read(keys, group), self._read(values, group), attn_mask=mask
        )
        heads = attended.view(group.num_seqs, self._num_kv_heads, self._num_heads_per_kv, query_len, self._head_dim)
        return heads.permute(0, 3, 1, 2, 4).reshape(query.shape)

    def _read(self, slab: Tensor, group: Group) -> Tensor:
        """(num_seqs, num_kv_heads, num_blocks * block_size, head_dim)"""
        context = slab.index_select(0, group.blocks)
        return context.view(group.num_seqs, -1, self._num_kv_heads, self._head_dim).transpose(1, 2)

    def _groups(self, layout: BatchLayout) -> Iterator[Group]:
        num_blocks = -(-layout.context_lens // self._block_size)
        starts = np.cumsum(layout.query_lens) - layout.query_lens
        is_decode = layout.query_lens == 1
        for seqs in group_by_length(np.flatnonzero(is_decode), num_blocks):
            yield self._group(layout, seqs, torch.from_numpy(starts[seqs]), int(num_blocks[seqs].max()))
        for seq in np.flatnonzero(~is_decode):
            tokens = slice(int(starts[seq]), int(starts[seq] + layout.query_lens[seq]))
            yield self._group(layout, np.array([seq]), tokens, int(num_blocks[seq]))

    def _group(self, layout: BatchLayout, seqs: IntArray, tokens: Tensor | slice, num_blocks: int) -> Group:
        query_len = int(layout.query_lens[seqs[0]])
        blocks = layout.block_tables[seqs, :num_blocks].reshape(-1)
        last_positions = layout.context_lens[seqs, None] - np.arange(query_len - 1, -1, -1) - 1
        is_hidden = np.arange(num_blocks * self._block_size) > last_positions[:, None, :, None]
        mask = torch.zeros(is_hidden.shape, dtype=self._dtype).masked_fill_(torch.from_numpy(is_hidden), float("-inf"))
        return Group(tokens, len(seqs), torch.from_numpy(blocks), mask)


def _lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros from fresh pages, which take memory only when first written; `torch.zeros` writes them all at once."""
    zeros = np.zeros(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(zeros).view(dtype).view(shape)


def group_by_length(seqs: IntArray, num_blocks: IntArray) -> Iterator[IntArray]:
    """Splits sequences so that in each group the longest context has at most twice the blocks of the shortest."""
    ordered = seqs[np.argsort(num_blocks[seqs], kind="stable")]
    while ordered.size:
        cut = int(np.searchsorted(num_blocks[ordered], 2 * num_blocks[ordered[0]], side="right"))
        yield np.sort(ordered[:cut])
        ordered = ordered[cut:]
