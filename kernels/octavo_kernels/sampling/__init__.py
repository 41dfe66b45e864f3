"""Choice of the next token on the device: greedy, or temperature with top-k, top-p and min-p."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from octavo_kernels.launch import launch_options, next_power_of_two, runs_triton
from octavo_kernels.sampling.reference import greedy_reference, keep_mask_reference

__all__ = ["SamplingTensors", "SamplingWorkspace", "greedy", "greedy_reference", "keep_mask_reference", "sample"]

_SLICE_BLOCK = 1024
_SEARCH_BLOCK = 8192
# Distance of neighbours in fp32's bit pattern: 16-bit logits need not be searched down to the last bit.
_FINEST = {torch.bfloat16: 1 << 16, torch.float16: 1 << 12, torch.float32: 1}


@dataclass(frozen=True)
class SamplingTensors:
    """One row per sequence. temperature, top_p, min_p: fp32; top_k, seeds: int32. Neutral: 0, 1, 0, 0, any."""

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    seeds: torch.Tensor


@dataclass(frozen=True)
class SamplingWorkspace:
    """The best (value, index) of each slice of each row, and each row's lowest kept logit."""

    values: torch.Tensor
    indices: torch.Tensor
    thresholds: torch.Tensor

    @classmethod
    def allocate(cls, num_rows: int, vocab_size: int, device: torch.device) -> SamplingWorkspace:
        num_slices = min(64 if num_rows <= 8 else 16, -(-vocab_size // _SLICE_BLOCK))
        shape = (num_rows, num_slices)
        return cls(
            torch.empty(shape, dtype=torch.float32, device=device),
            torch.empty(shape, dtype=torch.int32, device=device),
            torch.empty(num_rows, dtype=torch.float32, device=device),
        )


def greedy(
    logits: torch.Tensor,
    workspace: SamplingWorkspace,
    out: torch.Tensor,
    *,
    rows: torch.Tensor | None = None,
    pdl: bool = False,
) -> torch.Tensor:
    """``out[i] = argmax(logits[i])``, the lowest index on a tie; -1 for a row with logits that are not finite.

    logits: [num_rows, vocab_size]; out: int32; rows: int32 [num_rows], where in ``out`` each token goes, if not ``i``.
    """
    if not runs_triton(logits):
        return greedy_reference(logits, out, rows)
    _best_of_slices(logits, workspace, None, None, pdl)
    _best_of_rows(workspace, logits.shape[0], out, rows, pdl)
    return out


def sample(
    logits: torch.Tensor,
    params: SamplingTensors,
    positions: torch.Tensor,
    workspace: SamplingWorkspace,
    out: torch.Tensor,
    *,
    rows: torch.Tensor | None = None,
    pdl: bool = False,
) -> torch.Tensor:
    """Draw one token per row from the softmax of ``logits / temperature``, restricted to top-k, then top-p, then min-p.

    Rows with temperature 0 are greedy; a row with logits that are not finite gets -1. The draw is the Gumbel-max trick
    with Philox noise of (seed, position, token), so it depends on neither the batch nor the step. Ties at a limit are
    kept. positions: int32 [num_rows]. GPU only.
    """
    if not runs_triton(logits):
        raise ValueError("sample() runs on a GPU; on a CPU draw with torch.multinomial over keep_mask_reference()")
    from octavo_kernels.sampling.kernel import thresholds_kernel

    num_rows, vocab_size = logits.shape
    thresholds_kernel[(num_rows,)](
        logits,
        params.temperature,
        params.top_k,
        params.top_p,
        params.min_p,
        workspace.thresholds,
        vocab_size,
        FINEST=_FINEST[logits.dtype],
        BLOCK=min(_SEARCH_BLOCK, next_power_of_two(vocab_size)),
        **launch_options(16, pdl=pdl),
    )
    _best_of_slices(logits, workspace, params, positions, pdl)
    _best_of_rows(workspace, num_rows, out, rows, pdl)
    return out


def _best_of_slices(
    logits: torch.Tensor,
    workspace: SamplingWorkspace,
    params: SamplingTensors | None,
    positions: torch.Tensor | None,
    pdl: bool,
) -> None:
    from octavo_kernels.sampling.kernel import best_of_slice_kernel

    num_rows, vocab_size = logits.shape
    num_slices = workspace.values.shape[1]
    best_of_slice_kernel[(num_rows, num_slices)](
        logits,
        workspace.thresholds,
        workspace.thresholds if params is None else params.temperature,
        workspace.indices if params is None else params.seeds,
        workspace.indices if positions is None else positions,
        workspace.values,
        workspace.indices,
        vocab_size,
        NUM_SLICES=num_slices,
        BLOCK=_SLICE_BLOCK,
        SAMPLE=params is not None,
        **launch_options(4, pdl=pdl),
    )


def _best_of_rows(
    workspace: SamplingWorkspace, num_rows: int, out: torch.Tensor, rows: torch.Tensor | None, pdl: bool
) -> None:
    from octavo_kernels.sampling.kernel import best_of_row_kernel

    num_slices = workspace.values.shape[1]
    best_of_row_kernel[(num_rows,)](
        workspace.values,
        workspace.indices,
        out if rows is None else rows,
        out,
        HAS_ROWS=rows is not None,
        NUM_SLICES=num_slices,
        BLOCK=next_power_of_two(num_slices),
        **launch_options(1, pdl=pdl),
    )
