"""Chooses the kernel of every matrix product by measuring the few that fit, and remembers the choice on disk."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import triton

from octavo_engine.runner.cuda_model import CudaModel, LinearPlan
from octavo_kernels.linear import (
    LinearConfig,
    LinearShape,
    candidates,
    gated_linear,
    gemv,
    gemv_candidates,
    linear,
    linear_addends,
)
from octavo_kernels.rms_norm import add_rms_norm
from octavo_kernels.timing import graph_microseconds

logger = logging.getLogger(__name__)

TUNED_ROWS = (1, 16, 32, 64, 128)
_NUM_COMPILE_THREADS = 16
_BYTES_IN_ROTATION = 300_000_000

Launch = Callable[[], object]


def tuned_plans(model: CudaModel, max_num_seqs: int) -> dict[int, LinearPlan]:
    """A plan for each of `TUNED_ROWS`; batches in between use the next larger one, larger batches cuBLAS."""
    path = _cache_path(model)
    if path.exists():
        saved = json.loads(path.read_text())
        return {int(rows): LinearPlan(*(LinearConfig(*fields) for fields in plan)) for rows, plan in saved.items()}
    started = time.perf_counter()
    plans = {
        rows: _tune(model, min(rows, max_num_seqs)) for rows in TUNED_ROWS if rows == 1 or rows // 2 < max_num_seqs
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plans))
    logger.info("measured the matrix products in %.1f s; kept in %s", time.perf_counter() - started, path)
    return plans


def plan_for(plans: dict[int, LinearPlan], num_rows: int) -> LinearPlan:
    fitting = [rows for rows in plans if rows >= num_rows and (rows > 1 or num_rows == 1)]
    return plans[min(fitting)] if fitting else LinearPlan()


def _tune(model: CudaModel, num_rows: int) -> LinearPlan:
    shapes = model.shapes(num_rows)
    if num_rows == 1 and model.weights.layers[0].qkv_bias is None:
        single = {name: gemv_candidates(shape) for name, shape in shapes.items()}
        if all(single.values()):
            return LinearPlan(**{name: _fastest(model, name, shapes[name], single[name]) for name in shapes})
    has_tma = torch.cuda.get_device_capability(model.weights.device)[0] >= 9
    return LinearPlan(
        **{name: _fastest(model, name, shape, candidates(shape, has_tma=has_tma)) for name, shape in shapes.items()}
    )


def _fastest(model: CudaModel, name: str, shape: LinearShape, configs: list[LinearConfig]) -> LinearConfig:
    """The product is timed together with the norm before or after it, over so many layers that weights miss L2."""
    layer_bytes = 2 * shape.out_features * shape.in_features
    num_layers = min(len(model.weights.layers), 1 + _BYTES_IN_ROTATION // layer_bytes) if name != "head" else 1
    _compile([_product(model, name, shape, config, 0) for config in configs], model.weights.device)
    times = {}
    for config in configs:
        products = [_product(model, name, shape, config, index) for index in range(num_layers)]
        model.hidden.normal_(std=0.02)
        times[config] = graph_microseconds(lambda: [product() for product in products])  # noqa: B023
    best = min(times, key=lambda config: times[config])
    logger.info("%s of %d rows: %s, %.1f us", name, shape.num_rows, best, times[best] / num_layers)
    return best


def _product(model: CudaModel, name: str, shape: LinearShape, config: LinearConfig, index: int) -> Launch:
    num_rows = shape.num_rows
    layer, scratch = model.weights.layers[index], model.scratch
    hidden, normed = model.hidden[:num_rows], model.normed[:num_rows]
    weight = model.weights.head if name == "head" else getattr(layer, name)
    inputs = {"output": model.attended, "down": model.activated}.get(name, model.normed)[:num_rows]
    outs = {"qkv": model.qkv, "gate_up": model.activated, "head": model.logits}
    out = outs.get(name, model.hidden)[:num_rows]
    pdl = has_pdl(model.weights.device)
    norm, eps = layer.input_norm, model.weights.config.rms_norm_eps

    def single() -> None:
        if shape.can_split:
            gemv(inputs, weight, out, config, residual=hidden, pdl=pdl)
        else:
            gemv(hidden, weight, out, config, norm_weight=norm, eps=eps, gated=shape.gated, pdl=pdl)

    def batched() -> None:
        if shape.can_split:
            addends = linear_addends(inputs, weight, scratch, config, pdl=pdl)
            add_rms_norm(hidden, addends, norm, eps, normed, pdl=pdl)
            return
        add_rms_norm(hidden, None, norm, eps, normed, pdl=pdl)
        if shape.gated:
            gated_linear(inputs, weight, out, scratch, config, pdl=pdl)
        else:
            linear(inputs, weight, out, config, pdl=pdl)

    return single if config.kernel == "gemv" else batched


def has_pdl(device: torch.device) -> bool:
    """Programmatic dependent launch came with Hopper."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


def _compile(launches: list[Launch], device: torch.device) -> None:
    """Run each launch once, in threads, so that their compilations overlap."""
    with ThreadPoolExecutor(_NUM_COMPILE_THREADS, initializer=lambda: torch.zeros(1, device=device)) as pool:
        for future in [pool.submit(launch) for launch in launches]:
            future.result()
    torch.cuda.synchronize(device)


def _cache_path(model: CudaModel) -> Path:
    """One file per GPU, versions and shapes, beside the converted models."""
    device = model.weights.device
    facts = [torch.cuda.get_device_name(device), torch.__version__, triton.__version__, str(model.weights.dtype)]
    facts.append(str(model.weights.config.has_qkv_bias))
    key = hashlib.sha256(json.dumps([*facts, model.shapes(1)]).encode()).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("OCTAVO_CACHE") or Path(home) / "octavo") / "tuning" / f"{key}.json"
