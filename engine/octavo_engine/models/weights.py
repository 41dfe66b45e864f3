"""Weights by name: read shard by shard from safetensors, or random for benchmarks."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from octavo_engine.errors import ModelError

logger = logging.getLogger(__name__)


class Weights(Protocol):
    """Gives each named tensor once, in the engine's dtype and on its device, checked against the expected shape."""

    def take(self, name: str, *shape: int) -> Tensor: ...


class SafetensorsWeights:
    """The *.safetensors files of a directory. Only the tensor being taken is in memory, the rest stays on disk."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype = dtype
        self._device = device
        self._shards = _open_shards(directory)
        self._directory = directory
        self._num_taken = 0

    def take(self, name: str, *shape: int) -> Tensor:
        if name not in self._shards:
            raise ModelError(f"{self._directory} has no tensor {name!r}, which its config.json asks for")
        tensor: Tensor = self._shards[name].get_tensor(name)  # type: ignore[no-untyped-call]
        if tuple(tensor.shape) != shape:
            raise ModelError(f"tensor {name!r} has shape {tuple(tensor.shape)}; config.json makes it {shape}")
        self._log_progress()
        return tensor.to(self._device, self._dtype)

    def _log_progress(self) -> None:
        self._num_taken += 1
        if self._num_taken % 100 == 0:
            logger.info("loaded %d of %d tensors", self._num_taken, len(self._shards))


class RandomWeights:
    """Reproducible normal weights, for benchmarks of shapes whose checkpoints are not at hand."""

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int) -> None:
        self._dtype = dtype
        self._device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def take(self, name: str, *shape: int) -> Tensor:
        tensor = torch.empty(shape, dtype=self._dtype, device=self._device)
        if "norm" in name:
            return tensor.fill_(1.0)
        return tensor.normal_(0.0, 0.02, generator=self._generator)


def _open_shards(directory: Path) -> dict[str, safe_open]:
    """Which open file has which tensor. The index is only trusted to name the files."""
    shards: dict[str, safe_open] = {}
    for path in _shard_paths(directory):
        try:
            shard = safe_open(path, framework="pt", backend="pread")
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} is not a readable safetensors file ({error}): download it again") from error
        shards.update(dict.fromkeys(shard.keys(), shard))  # type: ignore[no-untyped-call]
    return shards


def _shard_paths(directory: Path) -> Iterator[Path]:
    index = directory / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        yield from (directory / name for name in names)
        return
    paths = sorted(directory.glob("*.safetensors"))
    if not paths:
        raise ModelError(f"{directory} has no *.safetensors files; other weight formats are not supported")
    yield from paths
