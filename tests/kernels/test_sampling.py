"""Greedy choice and constrained sampling on the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from octavo_kernels.sampling import (
    SamplingTensors,
    SamplingWorkspace,
    greedy,
    greedy_reference,
    keep_mask_reference,
    sample,
)
from tests.kernels.support import DTYPES, NATIVE, randn


def sampling_tensors(
    device: torch.device,
    num_rows: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> SamplingTensors:
    def full(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full((num_rows,), value, dtype=dtype, device=device)

    return SamplingTensors(
        full(temperature),
        full(top_k, torch.int32),
        full(top_p),
        full(min_p),
        torch.arange(num_rows, device=device).int(),
    )


def draw(logits: torch.Tensor, params: SamplingTensors, position: int = 0) -> torch.Tensor:
    num_rows = logits.shape[0]
    out = torch.full((num_rows,), -7, dtype=torch.int32, device=logits.device)
    positions = torch.full_like(out, position)
    workspace = SamplingWorkspace.allocate(num_rows, logits.shape[1], logits.device)
    return sample(logits, params, positions, workspace, out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_rows", "vocab_size"), [(1, 17), (3, 5000), (9, 1003)])
def test_greedy_is_the_first_argmax(device: torch.device, dtype: torch.dtype, num_rows: int, vocab_size: int) -> None:
    logits = randn(num_rows, vocab_size, dtype=dtype, device=device)
    logits[0, [3, 11]] = logits.max() + 1
    out = torch.full((num_rows,), -7, dtype=torch.int32, device=device)
    greedy(logits, SamplingWorkspace.allocate(num_rows, vocab_size, device), out)
    assert torch.equal(out, greedy_reference(logits, torch.empty_like(out)))
    assert out[0] == 3


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_gives_no_token(device: torch.device, value: float) -> None:
    logits = torch.randn(2, 40, device=device)
    logits[1, 17] = value
    out = torch.full((2,), -7, dtype=torch.int32, device=device)
    greedy(logits, SamplingWorkspace.allocate(2, 40, device), out)
    assert out.tolist() == [logits[0].argmax().item(), -1]
    assert draw(logits, sampling_tensors(device, 2))[1] == -1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "limits",
    [
        {"top_k": 1},
        {"top_k": 7},
        {"top_p": 0.3},
        {"top_p": 0.9, "temperature": 0.7},
        {"min_p": 0.2},
        {"top_k": 20, "top_p": 0.8, "min_p": 0.05, "temperature": 1.5},
    ],
    ids=str,
)
def test_thresholds_keep_exactly_the_tokens_of_the_reference(
    device: torch.device, dtype: torch.dtype, limits: dict[str, Any]
) -> None:
    logits = randn(4, 777, dtype=dtype, device=device) * 3
    params = sampling_tensors(device, 4, **limits)
    workspace = SamplingWorkspace.allocate(4, 777, device)
    out = torch.empty(4, dtype=torch.int32, device=device)
    sample(logits, params, torch.zeros_like(out), workspace, out)
    filled: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0} | limits
    for row in range(4):
        expected = keep_mask_reference(logits[row], **filled)
        assert torch.equal(logits[row].float() >= workspace.thresholds[row], expected)
        assert expected[out[row]]


def test_temperature_zero_is_greedy_beside_sampled_rows(device: torch.device) -> None:
    logits = torch.randn(3, 300, device=device)
    params = sampling_tensors(device, 3)
    params.temperature[1] = 0
    assert draw(logits, params)[1] == logits[1].argmax()


def test_tokens_go_to_the_rows_asked_for(device: torch.device) -> None:
    logits = torch.randn(2, 90, device=device)
    rows = torch.tensor([3, 1], device=device).int()
    out = torch.full((4,), -7, dtype=torch.int32, device=device)
    greedy(logits, SamplingWorkspace.allocate(2, 90, device), out, rows=rows)
    first, second = logits.argmax(-1).tolist()
    assert out.tolist() == [-7, second, -7, first]


def test_a_draw_depends_on_its_seed_and_position_but_not_on_its_row(device: torch.device) -> None:
    logits = torch.zeros(1, 1000, device=device)
    alone = sampling_tensors(device, 1)
    batch = sampling_tensors(device, 3)
    batch.seeds.copy_(torch.tensor([5, 0, 9]))
    tokens = [draw(logits.expand(3, -1).contiguous(), batch, position).tolist() for position in range(4)]
    assert [row[1] for row in tokens] == [draw(logits, alone, position).item() for position in range(4)]
    assert len({token for row in tokens for token in row}) > 6


def test_frequencies_follow_the_softmax(device: torch.device) -> None:
    num_rows = 4000 if NATIVE else 300
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0], device=device)
    tokens = draw(logits.expand(num_rows, -1).contiguous(), sampling_tensors(device, num_rows, temperature=0.8))
    frequency = torch.bincount(tokens.long(), minlength=4).float() / num_rows
    expected = (logits / 0.8).softmax(-1)
    deviation = (expected * (1 - expected) / num_rows).sqrt()
    assert ((frequency - expected).abs() < 4 * deviation).all()
