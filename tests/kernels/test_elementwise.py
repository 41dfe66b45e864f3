"""Norm, activation, rotary, embedding and block copy against their references."""

from __future__ import annotations

import pytest
import torch

from octavo_kernels.copy_blocks import copy_blocks, copy_blocks_reference
from octavo_kernels.embedding import embed, embed_reference
from octavo_kernels.paged_kv import Rotary
from octavo_kernels.rms_norm import add_rms_norm, add_rms_norm_reference
from octavo_kernels.rotary import rotary_kv_write, rotary_kv_write_reference, rotary_table
from octavo_kernels.silu_mul import silu_mul, silu_mul_reference
from tests.kernels.support import DTYPES, assert_close, block_tables, poisoned, randn


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("num_tokens", "hidden_size", "num_addends"), [(1, 64, 0), (3, 576, 1), (5, 1000, 3), (2, 4096, 2)]
)
def test_norm_adds_the_addends_into_the_residual(
    device: torch.device, dtype: torch.dtype, num_tokens: int, hidden_size: int, num_addends: int
) -> None:
    hidden = randn(num_tokens, hidden_size, dtype=dtype, device=device)
    addends = torch.randn(num_addends, num_tokens, hidden_size, device=device) if num_addends else None
    weight = randn(hidden_size, dtype=dtype, device=device)
    expected_hidden = hidden.clone()
    expected = add_rms_norm_reference(expected_hidden, addends, weight, 1e-5, torch.empty_like(hidden))

    actual = add_rms_norm(hidden, addends, weight, 1e-5, poisoned(num_tokens, hidden_size, like=hidden))

    assert_close(actual, expected)
    assert_close(hidden, expected_hidden)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_tokens", "size"), [(1, 1), (3, 1000), (2, 1536), (1, 14336)])
def test_silu_mul_pairs_interleaved_columns(
    device: torch.device, dtype: torch.dtype, num_tokens: int, size: int
) -> None:
    gate_up = randn(num_tokens, 2 * size, dtype=dtype, device=device)
    out = poisoned(num_tokens, size, like=gate_up)
    assert_close(silu_mul(gate_up, out), silu_mul_reference(gate_up, torch.empty_like(out)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "head_dim", "block_size"), [(9, 3, 64, 16), (4, 4, 32, 8), (8, 2, 128, 32)]
)
def test_rotary_rotates_queries_in_place_and_writes_kv_to_its_slots(
    device: torch.device,
    dtype: torch.dtype,
    qk_norm: bool,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    block_size: int,
) -> None:
    num_tokens, num_blocks = 7, 6
    qkv = randn(num_tokens, (num_heads + 2 * num_kv_heads) * head_dim, dtype=dtype, device=device)
    positions = torch.randint(0, 100, (num_tokens,), device=device).int()
    slots = torch.randperm(num_blocks * block_size, device=device)[:num_tokens].int()
    slots[3] = -1
    inv_freq = 10000.0 ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    norms = [randn(head_dim, dtype=dtype, device=device) for _ in range(2)] if qk_norm else [None, None]
    rotary = Rotary(*rotary_table(inv_freq, 128), norms[0], norms[1])
    caches = [randn(num_blocks, num_kv_heads, block_size, head_dim, dtype=dtype, device=device) for _ in range(2)]
    expected_qkv, expected_caches = qkv.clone(), [cache.clone() for cache in caches]
    rotary_kv_write_reference(expected_qkv, positions, slots, rotary, *expected_caches)

    rotary_kv_write(qkv, positions, slots, rotary, *caches)

    query_size = num_heads * head_dim
    assert_close(qkv[:, :query_size], expected_qkv[:, :query_size])
    for actual, expected in zip(caches, expected_caches, strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_embedding_gives_zero_to_padding(device: torch.device, dtype: torch.dtype) -> None:
    table = randn(50, 72, dtype=dtype, device=device)
    tokens = torch.tensor([49, -1, 0, 7], device=device).int()
    out = poisoned(4, 72, like=table)
    assert torch.equal(embed(tokens, table, out), embed_reference(tokens, table, torch.empty_like(out)))
    rows = torch.tensor([3, 0, 1, 3], device=device).int()
    expected = embed_reference(tokens, table, torch.empty_like(out), rows)
    assert torch.equal(embed(tokens, table, out, rows=rows), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copied_blocks_are_bitwise_equal_and_others_untouched(device: torch.device, dtype: torch.dtype) -> None:
    cache = randn(9, 3, 8, 48, dtype=dtype, device=device)
    pairs = block_tables(2, 3, 9, device)
    expected = cache.clone()
    copy_blocks_reference(expected, pairs[0], pairs[1])
    copy_blocks(cache, pairs[0], pairs[1])
    assert torch.equal(cache, expected)
