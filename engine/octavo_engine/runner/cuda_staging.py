"""Pinned host memory through which small arrays reach the device without a wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from octavo_engine.runner.cuda_table import Int32Array

_ALIGNMENT = 4


def pinned(num_ints: int) -> Tensor:
    """int32 host memory that a GPU, where there is one, copies to and from without a wait."""
    return torch.zeros(num_ints, dtype=torch.int32, pin_memory=torch.cuda.is_available())


class Staging:
    """A ring of pinned buffers: one may be filled while copies from the ones before it are still to come.

    Their size is fixed, for pinning takes long.
    """

    def __init__(self, num_ints: int, num_buffers: int) -> None:
        self._buffers = [pinned(num_ints) for _ in range(num_buffers)]
        self._views = [buffer.numpy() for buffer in self._buffers]
        self._current = 0

    def pack(self, arrays: Sequence[Int32Array], device: torch.device) -> list[Tensor]:
        """The arrays on the device, in one copy. Each starts on a boundary that lets kernels read it in vectors."""
        padded = [-(-array.size // _ALIGNMENT) * _ALIGNMENT for array in arrays]
        starts = np.cumsum([0, *padded]).tolist()
        self._current = (self._current + 1) % len(self._buffers)
        view = self._views[self._current]
        for array, start in zip(arrays, starts, strict=False):
            view[start : start + array.size] = array.reshape(-1)
        flat = self._buffers[self._current][: starts[-1]].to(device, non_blocking=True)
        return [
            flat[start : start + array.size].view(array.shape) for array, start in zip(arrays, starts, strict=False)
        ]
