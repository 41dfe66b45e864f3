"""Shared by the kernel tests: dtypes to run, poisoned outputs, paged caches, comparison."""

from __future__ import annotations

import torch

# The interpreter computes bfloat16 wrongly, so it is tested only where kernels run natively.
NATIVE = torch.cuda.is_available()
DTYPES = [torch.float16, torch.bfloat16] if NATIVE else [torch.float32, torch.float16]
DTYPE = DTYPES[-1] if NATIVE else torch.float32
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def poisoned(*shape: int, like: torch.Tensor) -> torch.Tensor:
    """An output whose unwritten elements the comparison cannot miss."""
    return torch.full(shape, torch.nan, dtype=like.dtype, device=like.device)


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    actual, expected = actual.double().cpu(), expected.double().cpu()
    return float((actual - expected).norm() / expected.norm())


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    error = relative_error(actual, expected)
    assert error < TOLERANCE[actual.dtype], f"relative error {error:.1e}"  # also fails on NaN


def randn(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.randn(*shape, device=device).to(dtype)


def block_tables(num_seqs: int, blocks_per_seq: int, num_blocks: int, device: torch.device) -> torch.Tensor:
    """Tables of distinct blocks in random order."""
    return torch.randperm(num_blocks)[: num_seqs * blocks_per_seq].view(num_seqs, -1).int().to(device)
