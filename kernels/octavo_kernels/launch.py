"""Where an operation runs, and the options every kernel launch shares."""

from __future__ import annotations

import os

import torch


def runs_triton(tensor: torch.Tensor) -> bool:
    """True on a GPU, and under Triton's interpreter (``TRITON_INTERPRET=1``), where tests run kernels without one."""
    return tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"


def launch_options(num_warps: int, *, pdl: bool = False) -> dict[str, int | bool]:
    """``pdl`` starts the kernel while its predecessor drains (programmatic dependent launch, from Hopper on)."""
    options: dict[str, int | bool] = {"num_warps": num_warps, "PDL": pdl}
    if pdl:
        options["launch_pdl"] = True
    return options


def next_power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def require_power_of_two(name: str, number: int) -> None:
    if number & (number - 1):
        raise ValueError(f"{name} must be a power of two for the GPU kernels, got {number}; use the torch backend")
