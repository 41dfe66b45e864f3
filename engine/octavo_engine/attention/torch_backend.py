"""Paged attention in plain torch, for CPUs."""

import math
import mmap
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
    """Sequences computed together: decodes of similar length, or one chunk of prefill alone.

    tokens  where the group's queries are in the batch: (num_seqs,), or a slice of adjacent ones
    blocks  (num_seqs * num_blocks,) block ids to read, sequence by sequence
    mask    0 where a query may look and -inf elsewhere: (num_seqs, 1, num_blocks * block_size) of decodes,
            (1, query_len, num_blocks * block_size) of a chunk
    """

    is_decode: bool
    tokens: Tensor | slice
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class TorchPlan:
    slots: Tensor
    groups: list[Group]


class TorchAttention:
    """One slab per layer: (2 * num_kv_heads, num_blocks, block_size, head_dim), the keys' heads before the values'.

    With the head first, the blocks read for a batch are one matrix per head and sequence, as batched products want it.
    """

    name = "torch"

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype) -> None:
        shape = (2 * config.num_kv_heads, num_blocks, block_size, config.head_dim)
        self._slabs = [_lazy_zeros(shape, dtype) for _ in range(config.num_layers)]
        self._block_size = block_size
        self._num_heads = config.num_heads
        self._num_kv_heads = config.num_kv_heads
        self._head_dim = config.head_dim
        self._scale = config.head_dim**-0.5
        self._dtype = dtype

    def plan(self, layout: BatchLayout) -> TorchPlan:
        return TorchPlan(torch.from_numpy(layout.slots), list(self._groups(layout)))

    def attend(self, layer: int, heads: Tensor, plan: TorchPlan) -> Tensor:
        """What is not finite is stored as zero, for even at masked positions it would spoil the block's next owner."""
        slab = self._slabs[layer]
        query, key_value = heads[:, : self._num_heads], heads[:, self._num_heads :].transpose(0, 1)
        slab.flatten(1, 2).index_copy_(1, plan.slots, key_value.nan_to_num(0.0, 0.0, 0.0))
        if len(plan.groups) == 1:
            return self._attend_group(plan.groups[0], query, slab)
        output = torch.empty_like(query, memory_format=torch.contiguous_format)
        for group in plan.groups:
            output[group.tokens] = self._attend_group(group, query[group.tokens], slab)
        return output

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        source, destination = torch.tensor(pairs).unbind(1)
        for slab in self._slabs:
            slab[:, destination] = slab[:, source]

    def _attend_group(self, group: Group, query: Tensor, slab: Tensor) -> Tensor:
        keys, values = slab.index_select(1, group.blocks).chunk(2)
        return (self._attend_decodes if group.is_decode else self._attend_chunk)(query, keys, values, group.mask)

    def _attend_decodes(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """The query heads that share a KV head are the rows of one product, so that each key is read once."""
        num_seqs = len(query)
        rows = query.view(num_seqs, self._num_kv_heads, -1, self._head_dim).transpose(0, 1)
        rows = rows.reshape(self._num_kv_heads * num_seqs, -1, self._head_dim)
        keys, values = (context.view(len(rows), -1, self._head_dim) for context in (keys, values))
        scores = torch.bmm(rows, keys.transpose(1, 2)).view(self._num_kv_heads, num_seqs, -1, mask.shape[-1])
        weights = torch.add(mask, scores, alpha=self._scale).softmax(dim=-1)
        attended = torch.bmm(weights.view(len(rows), -1, mask.shape[-1]), values)
        return attended.view(self._num_kv_heads, num_seqs, -1, self._head_dim).transpose(0, 1).reshape(query.shape)

    def _attend_chunk(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        heads = query.view(len(query), self._num_kv_heads, -1, self._head_dim).permute(1, 2, 0, 3)
        shape = (*heads.shape[:2], -1, self._head_dim)
        keys, values = (context.flatten(1, 2).unsqueeze(1).expand(shape) for context in (keys, values))
        attended = F.scaled_dot_product_attention(heads, keys, values, attn_mask=mask[0])  # the fast path wants 2-D
        return attended.permute(2, 0, 1, 3).reshape(query.shape)

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
        is_hidden = np.arange(num_blocks * self._block_size) > last_positions[:, :, None]
        mask = torch.zeros(is_hidden.shape, dtype=self._dtype).masked_fill_(torch.from_numpy(is_hidden), float("-inf"))
        return Group(query_len == 1, tokens, torch.from_numpy(blocks), mask)


def _lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros in fresh pages, which take memory only when first written; torch would write and numpy enlarge them."""
    pages = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=dtype).view(shape)


def group_by_length(seqs: IntArray, num_blocks: IntArray) -> Iterator[IntArray]:
    """Splits sequences so that in each group the longest context has at most twice the blocks of the shortest."""
    ordered = seqs[np.argsort(num_blocks[seqs], kind="stable")]
    while ordered.size:
        cut = int(np.searchsorted(num_blocks[ordered], 2 * num_blocks[ordered[0]], side="right"))
        yield np.sort(ordered[:cut])
        ordered = ordered[cut:]
