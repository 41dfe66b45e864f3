"""Decode, shared-prefix and prefill attention over paged KV against their references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo_kernels.decode_attention import (
    DecodeConfig,
    DecodePlan,
    advance_plan,
    decode_attention,
    decode_attention_reference,
)
from octavo_kernels.paged_kv import PrefixState, Rotary
from octavo_kernels.prefill_attention import prefill_attention, prefill_attention_reference
from octavo_kernels.prefix_attention import prefix_attention, rows_per_tile
from octavo_kernels.rotary import rotary_table
from tests.kernels.support import DTYPE, DTYPES, assert_close, block_tables, poisoned, randn


@dataclass
class Heads:
    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def qkv_size(self) -> int:
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim


SMOLLM = Heads(9, 3, 64)
QWEN = Heads(4, 2, 128)


Caches = tuple[Tensor, Tensor]


class Case:
    """One decode batch over random caches."""

    def __init__(
        self,
        heads: Heads,
        lengths: list[int],
        device: torch.device,
        dtype: torch.dtype,
        block_size: int = 16,
        num_splits: int = 5,
        qk_norm: bool = False,
    ) -> None:
        blocks_per_seq = max(lengths) // block_size + 1
        num_blocks = len(lengths) * blocks_per_seq + 3
        self.heads, self.num_rows = heads, len(lengths)
        self.qkv = randn(self.num_rows, heads.qkv_size, dtype=dtype, device=device)
        shape = (num_blocks, heads.num_kv_heads, block_size, heads.head_dim)
        self.caches: Caches = (randn(*shape, dtype=dtype, device=device), randn(*shape, dtype=dtype, device=device))
        self.tables = block_tables(self.num_rows, blocks_per_seq, num_blocks, device)
        self.lengths = torch.tensor(lengths, device=device).int()
        self.shared_lens = torch.zeros_like(self.lengths)
        inv_freq = 10000.0 ** (-torch.arange(0, heads.head_dim, 2, device=device) / heads.head_dim)
        norms = [randn(heads.head_dim, dtype=dtype, device=device) for _ in range(2)] if qk_norm else [None, None]
        self.rotary = Rotary(*rotary_table(inv_freq, max(lengths) + 1), norms[0], norms[1])
        self.scale = heads.head_dim**-0.5
        self.plan = DecodePlan.allocate(
            self.num_rows, heads.num_heads, heads.num_kv_heads, heads.head_dim, device, num_splits
        )

    def args(self, caches: Caches) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, DecodePlan, Rotary, float]:
        return self.qkv, *caches, self.tables, self.lengths, self.plan, self.rotary, self.scale

    def run(self, window: int = 0, **options: Any) -> None:
        """Outputs and caches of the kernel, then of the reference, for the live rows."""
        advance_plan(self.plan, self.lengths, self.shared_lens, advance=False, window=window)
        expected_caches = self.caches[0].clone(), self.caches[1].clone()
        out = poisoned(self.num_rows, self.heads.num_heads * self.heads.head_dim, like=self.qkv)
        expected_args, args = self.args(expected_caches), self.args(self.caches)
        expected = decode_attention_reference(*expected_args, torch.empty_like(out), prefix=options.get("prefix"))
        actual = decode_attention(*args, out, **options)
        live = self.lengths >= 0
        for cache, expected_cache in zip(self.caches, expected_caches, strict=True):
            assert_close(cache, expected_cache)
        assert_close(actual[live], expected[live])
        assert actual[~live].isnan().all()
        assert not self.plan.arrivals.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [SMOLLM, QWEN], ids=["group3", "group2"])
@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
def test_decode_attention_equals_its_reference(
    device: torch.device, dtype: torch.dtype, heads: Heads, block_size: int
) -> None:
    Case(heads, [0, 1, 65, 200, 31], device, dtype, block_size).run()


@pytest.mark.parametrize("config", [DecodeConfig(64, 0, 4), DecodeConfig(32, 3, 1), DecodeConfig(16, 2, 2)])
@pytest.mark.parametrize("num_splits", [1, 3, 40])
def test_every_split_of_the_work_gives_the_same_output(
    device: torch.device, config: DecodeConfig, num_splits: int
) -> None:
    Case(QWEN, [733, 70], device, DTYPE, num_splits=num_splits, qk_norm=True).run(config=config)


def test_a_single_sequence_is_split_and_combined(device: torch.device) -> None:
    Case(SMOLLM, [500], device, DTYPE, num_splits=16).run()


def test_padding_rows_get_no_work_and_no_output(device: torch.device) -> None:
    case = Case(QWEN, [40, 7, 90], device, DTYPE)
    case.lengths[1] = -1
    case.run()
    assert int(case.plan.offsets[2] - case.plan.offsets[1]) == 0


@pytest.mark.parametrize("window", [1, 33, 128])
def test_a_sliding_window_hides_older_tokens(device: torch.device, window: int) -> None:
    Case(QWEN, [0, 20, 150], device, DTYPE).run(window=window)


def test_advancing_grows_live_lengths_only_and_covers_every_token_once(device: torch.device) -> None:
    case = Case(QWEN, [100, 3, 257], device, DTYPE)
    case.lengths[1] = -1
    advance_plan(case.plan, case.lengths, case.shared_lens, advance=True)
    assert case.lengths.tolist() == [101, -1, 258]
    chunks, num_items = case.plan.chunks.tolist(), int(case.plan.offsets[-1])
    items = case.plan.item_rows[:num_items].tolist()
    assert items == sorted(items)
    assert items.count(0) == -(-101 // chunks[0])
    assert items.count(1) == 0
    assert items.count(2) == -(-258 // chunks[2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [SMOLLM, QWEN], ids=["group3", "group2"])
@pytest.mark.parametrize("num_splits", [1, 3, 4])
def test_a_shared_prefix_read_once_gives_the_same_attention(
    device: torch.device, dtype: torch.dtype, heads: Heads, num_splits: int
) -> None:
    """Two groups of different prefixes and one row of its own."""
    case = Case(heads, [170, 200, 161, 90, 130, 77], device, dtype, qk_norm=heads is QWEN)
    case.tables[[1, 2], :10] = case.tables[0, :10]
    case.tables[4, :5] = case.tables[3, :5]
    case.shared_lens[:3], case.shared_lens[3:5] = 160, 80
    width = rows_per_tile(heads.num_heads, heads.num_kv_heads)
    tile_rows = torch.full((4, width), -1, dtype=torch.int32, device=device)
    tile_rows[0, :2] = torch.tensor([1, 0])
    tile_rows[1, :1] = torch.tensor([2])
    tile_rows[2, :2] = torch.tensor([3, 4])
    tile_lens = torch.tensor([160, 160, 80, 0], device=device).int()
    state = PrefixState.allocate(num_splits, case.num_rows, heads.num_heads, heads.head_dim, device)
    for part in state:
        part.fill_(torch.nan)
    prefix_attention(
        case.qkv, *case.caches, case.tables, case.lengths, tile_rows, tile_lens, case.rotary, case.scale, state
    )
    case.run(prefix=state)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [SMOLLM, QWEN], ids=["group3", "group2"])
@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
@pytest.mark.parametrize(("contexts", "query_lens"), [([0, 64, 5], [70, 3, 17]), ([77, 0], [1, 129])])
def test_prefill_attention_equals_its_reference(
    device: torch.device, dtype: torch.dtype, heads: Heads, block_size: int, contexts: list[int], query_lens: list[int]
) -> None:
    check_prefill(device, dtype, heads, block_size, contexts, query_lens)


@pytest.mark.parametrize("window", [1, 50, 500])
def test_prefill_attention_keeps_to_its_sliding_window(device: torch.device, window: int) -> None:
    check_prefill(device, DTYPE, QWEN, 16, [0, 100], [150, 40], window=window)


def check_prefill(
    device: torch.device,
    dtype: torch.dtype,
    heads: Heads,
    block_size: int,
    contexts: list[int],
    query_lens: list[int],
    window: int = 0,
) -> None:
    longest = max(c + q for c, q in zip(contexts, query_lens, strict=True))
    blocks_per_seq = -(-longest // block_size)
    num_blocks = len(contexts) * blocks_per_seq + 2
    qkv = randn(sum(query_lens), heads.qkv_size, dtype=dtype, device=device)
    shape = (num_blocks, heads.num_kv_heads, block_size, heads.head_dim)
    caches = randn(*shape, dtype=dtype, device=device), randn(*shape, dtype=dtype, device=device)
    tables = block_tables(len(contexts), blocks_per_seq, num_blocks, device)
    starts = torch.tensor([0, *query_lens], device=device).cumsum(0).int()
    args = (qkv, *caches, tables, starts, torch.tensor(contexts, device=device).int())
    out = poisoned(sum(query_lens), heads.num_heads * heads.head_dim, like=qkv)
    scale = heads.head_dim**-0.5
    expected = prefill_attention_reference(*args, scale, torch.empty_like(out), window=window)
    actual = prefill_attention(*args, max(query_lens), scale, out, window=window)
    assert_close(actual, expected)
