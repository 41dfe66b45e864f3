"""Every candidate kernel of a matrix product gives the product."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from octavo_kernels.linear import (
    LinearConfig,
    LinearShape,
    Scratch,
    candidates,
    gated_linear,
    gemv,
    gemv_candidates,
    linear,
    linear_addends,
)
from octavo_kernels.linear.reference import gemv_reference, linear_reference
from tests.kernels.support import DTYPES, NATIVE, assert_close, poisoned, randn

HAS_TMA = not NATIVE or torch.cuda.get_device_capability()[0] >= 9


def operands(shape: LinearShape, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    x = randn(shape.num_rows, shape.in_features, dtype=dtype, device=device)
    weight = randn(shape.out_features, shape.in_features, dtype=dtype, device=device) / shape.in_features**0.5
    return x, weight


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_rows", "out_features", "in_features"), [(3, 256, 256), (20, 320, 384), (70, 128, 512)])
@pytest.mark.parametrize("gated", [False, True])
def test_every_candidate_gives_the_product(
    device: torch.device, dtype: torch.dtype, num_rows: int, out_features: int, in_features: int, gated: bool
) -> None:
    shape = LinearShape(num_rows, out_features, in_features, gated=gated)
    x, weight = operands(shape, dtype, device)
    expected = linear_reference(x, weight, gated=gated)
    configs = candidates(shape, has_tma=HAS_TMA)
    assert {config.kernel for config in configs} >= ({"torch", "skinny"} if HAS_TMA else {"torch"})
    for config in configs:
        out = poisoned(*expected.shape, like=x)
        if gated:
            gated_linear(x, weight, out, Scratch(num_rows * out_features * 4, device), config)
        else:
            linear(x, weight, out, config)
        assert_close(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_rows", "out_features", "in_features"), [(5, 512, 768), (33, 192, 512)])
def test_the_parts_of_every_split_add_up_to_the_product(
    device: torch.device, dtype: torch.dtype, num_rows: int, out_features: int, in_features: int
) -> None:
    shape = LinearShape(num_rows, out_features, in_features, can_split=True)
    x, weight = operands(shape, dtype, device)
    configs = candidates(shape, has_tma=HAS_TMA)
    assert max(config.num_splits for config in configs) > 1
    for config in configs:
        scratch = Scratch(8 * num_rows * out_features * 4, device)
        scratch.view(torch.float32, 8, num_rows, out_features).fill_(torch.nan)
        addends = linear_addends(x, weight, scratch, config)
        assert addends.shape == (config.num_splits, num_rows, out_features)
        assert_close(addends.sum(0).to(dtype), linear_reference(x, weight))


@pytest.mark.parametrize("dtype", DTYPES)
def test_oneshot_splits_give_the_product(device: torch.device, dtype: torch.dtype) -> None:
    shape = LinearShape(9, 64, 512, can_split=True)
    x, weight = operands(shape, dtype, device)
    for config in (LinearConfig("oneshot", 32, 256, 2), LinearConfig("oneshot", 64, 128, 4, num_warps=8)):
        addends = linear_addends(x, weight, Scratch(4 * 9 * 64 * 4, device), config)
        assert_close(addends.sum(0).to(dtype), linear_reference(x, weight))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("out_features", "in_features"), [(96, 576), (64, 1024), (32, 2048)])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("has_norm", [False, True])
def test_gemv_fuses_norm_gate_and_residual(
    device: torch.device, dtype: torch.dtype, out_features: int, in_features: int, gated: bool, has_norm: bool
) -> None:
    shape = LinearShape(1, out_features, in_features, gated=gated)
    x, weight = operands(shape, dtype, device)
    num_outputs = out_features // 2 if gated else out_features
    fused: dict[str, Any] = {
        "norm_weight": randn(in_features, dtype=dtype, device=device) if has_norm else None,
        "eps": 1e-5,
        "residual": None if gated else randn(1, num_outputs, dtype=dtype, device=device),
        "gated": gated,
    }
    expected = gemv_reference(x, weight, torch.empty(1, num_outputs, device=device), **fused)
    configs = gemv_candidates(shape)
    assert configs
    for config in configs:
        assert_close(gemv(x, weight, poisoned(1, num_outputs, like=x), config, **fused), expected)


def test_an_output_of_another_shape_is_refused(device: torch.device) -> None:
    x, weight = operands(LinearShape(5, 64, 128), DTYPES[0], device)
    scratch = Scratch(5 * 64 * 4, device)
    with pytest.raises(ValueError, match="pass an output of that shape"):
        linear(x, weight, poisoned(4, 64, like=x), LinearConfig("torch"))
    with pytest.raises(ValueError, match="pass an output of that shape"):
        gated_linear(x, weight, poisoned(5, 64, like=x), scratch, LinearConfig("torch"))
