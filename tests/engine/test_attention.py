"""Paged attention against plain attention over each sequence's own keys and values."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from octavo_engine.attention import BatchLayout
from octavo_engine.attention.interface import IntArray
from octavo_engine.attention.torch_backend import TorchAttention, group_by_length
from octavo_engine.models.config import load_model_config
from tests.engine.model_support import write_config

NUM_BLOCKS = 64


@dataclass
class Sequence:
    """Its whole keys, values and queries, and where its blocks lie."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    blocks: IntArray

    def heads(self) -> torch.Tensor:
        return torch.cat((self.query, self.key, self.value), dim=1)


def make_sequences(lengths: list[int], heads: tuple[int, int], head_dim: int, block_size: int) -> list[Sequence]:
    generator = torch.Generator().manual_seed(0)
    free = list(np.random.default_rng(0).permutation(NUM_BLOCKS))
    num_heads, num_kv_heads = heads
    return [
        Sequence(
            query=torch.randn(length, num_heads, head_dim, generator=generator),
            key=torch.randn(length, num_kv_heads, head_dim, generator=generator),
            value=torch.randn(length, num_kv_heads, head_dim, generator=generator),
            blocks=np.array([free.pop() for _ in range(-(-length // block_size))]),
        )
        for length in lengths
    ]


def attend_chunk(
    attention: TorchAttention, sequences: list[Sequence], spans: list[tuple[int, int]], block_size: int
) -> list[torch.Tensor]:
    """One pass over tokens start…end of each sequence; its output per sequence."""
    width = max(len(sequence.blocks) for sequence in sequences)
    slots = [
        sequence.blocks[np.arange(start, end) // block_size] * block_size + np.arange(start, end) % block_size
        for sequence, (start, end) in zip(sequences, spans, strict=True)
    ]
    tables = [np.pad(sequence.blocks, (0, width - len(sequence.blocks)), mode="edge") for sequence in sequences]
    layout = BatchLayout(
        query_lens=np.array([end - start for start, end in spans]),
        context_lens=np.array([end for _, end in spans]),
        block_tables=np.stack(tables),
        slots=np.concatenate(slots),
    )
    heads = torch.cat([sequence.heads()[start:end] for sequence, (start, end) in zip(sequences, spans, strict=True)])
    output = attention.attend(0, heads, attention.plan(layout))
    return list(torch.split(output, [end - start for start, end in spans]))


def plain_attention(sequence: Sequence, start: int, end: int) -> torch.Tensor:
    repeats = sequence.query.shape[1] // sequence.key.shape[1]
    key, value = (tensor[:end].repeat_interleave(repeats, dim=1) for tensor in (sequence.key, sequence.value))
    scores = torch.einsum("qhd,khd->hqk", sequence.query[start:end], key) / sequence.query.shape[-1] ** 0.5
    hidden = torch.arange(end)[None, :] > torch.arange(start, end)[:, None]
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, float("-inf")).softmax(-1), value)


def make_attention(tmp_path: Path, heads: tuple[int, int], head_dim: int, block_size: int) -> TorchAttention:
    config = load_model_config(
        write_config(
            tmp_path,
            num_attention_heads=heads[0],
            num_key_value_heads=heads[1],
            head_dim=head_dim,
            num_hidden_layers=1,
        )
    )
    return TorchAttention(config, NUM_BLOCKS, block_size, torch.float32)


@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
@pytest.mark.parametrize("heads", [(9, 3), (4, 4), (8, 1)])
def test_mixed_batches_of_chunks_and_decodes_equal_plain_attention(
    tmp_path: Path, block_size: int, heads: tuple[int, int]
) -> None:
    lengths = [1, 5, 40, 41, 64, 100]
    sequences = make_sequences(lengths, heads, 24, block_size)
    attention = make_attention(tmp_path, heads, 24, block_size)
    steps = [
        ([0, 2, 4], [(0, 1), (0, 33), (0, 64)]),
        ([1, 2, 3, 5], [(0, 5), (33, 39), (0, 40), (0, 70)]),
        ([2, 3, 5], [(39, 40), (40, 41), (70, 100)]),
    ]
    for indices, spans in steps:
        chosen = [sequences[index] for index in indices]
        outputs = attend_chunk(attention, chosen, spans, block_size)
        for sequence, (start, end), output in zip(chosen, spans, outputs, strict=True):
            torch.testing.assert_close(output, plain_attention(sequence, start, end), atol=1e-5, rtol=1e-5)


def test_decodes_of_very_different_lengths_equal_plain_attention(tmp_path: Path) -> None:
    lengths = [2, 3, 17, 100, 9, 200, 33]
    sequences = make_sequences(lengths, (6, 2), 16, 8)
    attention = make_attention(tmp_path, (6, 2), 16, 8)
    attend_chunk(attention, sequences, [(0, length - 1) for length in lengths], 8)
    outputs = attend_chunk(attention, sequences, [(length - 1, length) for length in lengths], 8)
    for sequence, length, output in zip(sequences, lengths, outputs, strict=True):
        torch.testing.assert_close(output, plain_attention(sequence, length - 1, length), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_values_left_in_a_block_do_not_reach_its_next_owner(tmp_path: Path, bad: float) -> None:
    first, second = make_sequences([16, 5], (6, 2), 16, 16)
    second.blocks = first.blocks
    first.key[:], first.value[:] = bad, bad
    attention = make_attention(tmp_path, (6, 2), 16, 16)
    attend_chunk(attention, [first], [(0, 16)], 16)
    outputs = attend_chunk(attention, [second], [(0, 5)], 16)
    torch.testing.assert_close(outputs[0], plain_attention(second, 0, 5), atol=1e-5, rtol=1e-5)


def test_copied_blocks_hold_the_same_keys_and_values(tmp_path: Path) -> None:
    (sequence,) = make_sequences([12], (6, 2), 16, 16)
    attention = make_attention(tmp_path, (6, 2), 16, 16)
    attend_chunk(attention, [sequence], [(0, 11)], 16)
    copy = (int(sequence.blocks[0]) + 1) % NUM_BLOCKS
    attention.copy_blocks([(int(sequence.blocks[0]), copy)])
    sequence.blocks = np.array([copy])
    (output,) = attend_chunk(attention, [sequence], [(11, 12)], 16)
    torch.testing.assert_close(output, plain_attention(sequence, 11, 12), atol=1e-5, rtol=1e-5)


def test_groups_waste_less_than_half_on_padding() -> None:
    num_blocks = np.array([1, 50, 2, 3, 100, 4, 51])
    groups = list(group_by_length(np.arange(7), num_blocks))
    assert sorted(np.concatenate(groups)) == list(range(7))
    for group in groups:
        assert num_blocks[group].max() <= 2 * num_blocks[group].min()
