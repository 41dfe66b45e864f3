"""Which kernel multiplies by a weight, with which tiles; and the few worth measuring for a shape."""

from __future__ import annotations

from typing import Literal, NamedTuple

_SHARED_MEMORY_ALONE, _SHARED_MEMORY_PAIR = 200_000, 105_000
_NUM_PROCESSORS = 132
MAX_SKINNY_ROWS = 128


class LinearConfig(NamedTuple):
    """``torch`` is cuBLAS; ``gemv`` reads one row; ``skinny`` streams weight tiles through the matrix units;
    ``oneshot`` holds a program's whole weight tile in registers."""

    kernel: Literal["torch", "gemv", "skinny", "oneshot"]
    block_n: int = 0
    block_k: int = 0
    num_splits: int = 1
    num_stages: int = 1
    num_warps: int = 4
    prefetch: int = 0


class LinearShape(NamedTuple):
    """A product [num_rows, in_features] x [out_features, in_features]; ``can_split`` if its consumer adds up parts."""

    num_rows: int
    out_features: int
    in_features: int
    can_split: bool = False
    gated: bool = False


def rows_per_program(num_rows: int) -> int:
    return next(size for size in (16, 32, 64, 128) if num_rows <= size or size == 128)


def candidates(shape: LinearShape, *, has_tma: bool) -> list[LinearConfig]:
    """Configurations that fit the shape, best guesses of long measurements on an H200; cuBLAS is always among them."""
    configs = [LinearConfig("torch")]
    if has_tma and shape.num_rows <= MAX_SKINNY_ROWS:
        configs += _skinny_candidates(shape)
    if shape.num_rows <= 32:
        configs += _oneshot_candidates(shape)
    return configs


def gemv_candidates(shape: LinearShape) -> list[LinearConfig]:
    """For a single row; empty if no tile divides the shape."""
    tiles = [
        (4, 2048, 8),
        (4, 1024, 4),
        (8, 1024, 4),
        (4, 1024, 2),
        (2, 1024, 2),
        (4, 512, 4),
        (8, 512, 2),
        (1, 512, 2),
    ]
    num_outputs = shape.out_features // (2 if shape.gated else 1)
    largest = shape.in_features & -shape.in_features
    if largest < 512:
        tiles = [(8, largest, 4)]
    return [
        LinearConfig("gemv", block_n, block_k, num_warps=num_warps)
        for block_n, block_k, num_warps in tiles
        if shape.in_features % block_k == 0 and num_outputs % block_n == 0
    ]


def _skinny_candidates(shape: LinearShape) -> list[LinearConfig]:
    tiles = [(64, 128, 1), (128, 64, 1), (128, 128, 1), (64, 64, 1), (64, 128, 2), (64, 64, 2), (64, 128, 4)]
    return [config for tile in tiles if (config := _skinny_config(shape, *tile))]


def _skinny_config(shape: LinearShape, block_n: int, block_k: int, num_splits: int) -> LinearConfig | None:
    block_m = rows_per_program(shape.num_rows)
    num_programs = -(-shape.out_features // block_n) * num_splits
    if shape.in_features % (num_splits * block_k) or (num_splits > 1 and not shape.can_split):
        return None
    if num_splits > 1 and ((block_m >= 64 and num_splits > 2) or num_programs > 640):
        return None
    shared = _SHARED_MEMORY_ALONE if num_programs <= _NUM_PROCESSORS else _SHARED_MEMORY_PAIR
    num_tiles = shape.in_features // num_splits // block_k
    num_stages = min(6, shared // ((block_m + block_n) * block_k * 2), num_tiles)
    if num_stages < 2:
        return None
    num_warps = 8 if block_m * block_n >= 128 * 128 else 4
    split_size = shape.in_features // num_splits
    prefetch = min(256, split_size & -split_size)
    return LinearConfig("skinny", block_n, block_k, num_splits, num_stages, num_warps, prefetch)


def _oneshot_candidates(shape: LinearShape) -> list[LinearConfig]:
    configs = []
    for block_n in (32, 64):
        for num_splits in (1, 2, 3, 4, 6, 8) if shape.can_split else (1,):
            block_k = shape.in_features // num_splits
            num_programs = shape.out_features // block_n * num_splits
            is_whole = shape.in_features % num_splits == 0 and block_k & (block_k - 1) == 0
            fits = is_whole and 128 <= block_k <= 32768 // block_n and shape.out_features % block_n == 0
            if fits and 60 <= num_programs <= 560:
                configs.append(LinearConfig("oneshot", block_n, block_k, num_splits, num_warps=8))
    return configs
