"""Time of every kernel beside what its bytes or operations cost at the GPU's ceilings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch

from bench.floor import H200
from bench.workloads import SHAPES, Shape
from octavo_kernels.decode_attention import DecodePlan, advance_plan, decode_attention
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
from octavo_kernels.paged_kv import PrefixState, Rotary
from octavo_kernels.prefill_attention import prefill_attention
from octavo_kernels.prefix_attention import prefix_attention, rows_per_tile
from octavo_kernels.rms_norm import add_rms_norm
from octavo_kernels.rotary import rotary_kv_write, rotary_table
from octavo_kernels.sampling import SamplingTensors, SamplingWorkspace, greedy, sample
from octavo_kernels.silu_mul import silu_mul
from octavo_kernels.timing import graph_microseconds

DEVICE = torch.device("cuda")
DTYPE = torch.bfloat16
BLOCK_SIZE = 16
NUM_COPIES = 4
MIN_BYTES_IN_ROTATION = 300e6

Row = dict[str, object]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(DTYPE)


def row(name: str, case: str, microseconds: float, num_bytes: float = 0, num_flops: float = 0, note: str = "") -> Row:
    """One line of the table; the ceiling is the slower of bytes and operations."""
    ceiling = max(num_bytes / H200.bytes_per_second, num_flops / H200.flops) * 1e6
    line: Row = {
        "kernel": name,
        "case": case,
        "microseconds": round(microseconds, 2),
        "ceiling_microseconds": round(ceiling, 2),
        "of_ceiling": round(ceiling / microseconds, 3),
        "note": note,
    }
    print(json.dumps(line), flush=True)
    return line


class Cache:
    """Random paged keys and values of ``num_layers`` layers, so that repeated reads miss L2."""

    def __init__(self, shape: Shape, lengths: list[int], num_layers: int, shared: int = 0) -> None:
        own_blocks = [length // BLOCK_SIZE + 1 - shared // BLOCK_SIZE for length in lengths]
        first = shared // BLOCK_SIZE
        num_blocks = first + sum(own_blocks)
        order = torch.randperm(num_blocks).int()
        self.tables = torch.zeros(len(lengths), first + max(own_blocks), dtype=torch.int32)
        self.tables[:, :first] = order[:first]
        for index, count in enumerate(own_blocks):
            self.tables[index, shared // BLOCK_SIZE : shared // BLOCK_SIZE + count] = order[first : first + count]
            first += count
        self.tables = self.tables.to(DEVICE)
        size = (num_blocks, shape.num_kv_heads, BLOCK_SIZE, shape.head_dim)
        self.layers = [(randn(*size), randn(*size)) for _ in range(num_layers)]


def rotary(shape: Shape) -> Rotary:
    inv_freq = 1e6 ** (-torch.arange(0, shape.head_dim, 2, device=DEVICE) / shape.head_dim)
    norms = [randn(shape.head_dim), randn(shape.head_dim)] if shape.model_type == "qwen3" else [None, None]
    return Rotary(*rotary_table(inv_freq, 16384), norms[0], norms[1])


def bench_decode_attention(name: str, shape: Shape) -> Iterator[Row]:
    cases = [[384], [8000], [384] * 32, [8000] * 16, [640] * 256, [100 + 1900 * i // 255 for i in range(256)]]
    for lengths in cases:
        cache = Cache(shape, lengths, NUM_COPIES)
        yield decode_row(name, shape, lengths, cache, shared=0)


def decode_row(name: str, shape: Shape, lengths: list[int], cache: Cache, shared: int) -> Row:
    num_rows, scale, rope = len(lengths), shape.head_dim**-0.5, rotary(shape)
    qkv = randn(num_rows, (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim)
    out = randn(num_rows, shape.num_heads * shape.head_dim)
    plan = DecodePlan.allocate(num_rows, shape.num_heads, shape.num_kv_heads, shape.head_dim, DEVICE)
    device_lengths = torch.tensor(lengths, device=DEVICE).int()
    advance_plan(plan, device_lengths, torch.full_like(device_lengths, shared), advance=False)
    state = tile_rows = tile_lens = None
    if shared:
        width = rows_per_tile(shape.num_heads, shape.num_kv_heads)
        state = PrefixState.allocate(4, num_rows, shape.num_heads, shape.head_dim, DEVICE)
        tile_rows = torch.arange(num_rows, device=DEVICE).int().view(-1, width)
        tile_lens = torch.full((tile_rows.shape[0],), shared, device=DEVICE).int()

    def work() -> None:
        for keys, values in cache.layers:
            args = (qkv, keys, values, cache.tables, device_lengths)
            if state is not None and tile_rows is not None and tile_lens is not None:
                prefix_attention(*args, tile_rows, tile_lens, rope, scale, state, pdl=True)
            decode_attention(*args, plan, rope, scale, out, prefix=state, pdl=True)

    num_tokens = sum(lengths) - shared * (num_rows - 1 if shared else 0)
    num_bytes = num_tokens * shape.num_kv_heads * shape.head_dim * 4
    case = f"{name} {num_rows} x {lengths[0]}..{lengths[-1]}" + (f", {shared} shared" if shared else "")
    kernel = "prefix + decode attention" if shared else "decode attention"
    return row(kernel, case, graph_microseconds(work) / len(cache.layers), num_bytes)


def bench_prefix_attention(name: str, shape: Shape) -> Iterator[Row]:
    lengths = [2048 + 64 + i // 2 for i in range(128)]
    cache = Cache(shape, lengths, NUM_COPIES, shared=2048)
    yield decode_row(name, shape, lengths, cache, shared=2048)


def bench_prefill(name: str, shape: Shape) -> Iterator[Row]:
    for num_seqs, query_len, context in ((32, 512, 0), (2, 4096, 0), (1, 8000, 0), (8, 512, 2048)):
        yield from prefill_rows(name, shape, num_seqs, query_len, context)


def prefill_rows(name: str, shape: Shape, num_seqs: int, query_len: int, context: int) -> Iterator[Row]:
    scale, rope = shape.head_dim**-0.5, rotary(shape)
    num_tokens = num_seqs * query_len
    cache = Cache(shape, [context + query_len] * num_seqs, 1)
    keys, values = cache.layers[0]
    qkv = randn(num_tokens, (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim)
    out = randn(num_tokens, shape.num_heads * shape.head_dim)
    starts = torch.arange(0, num_tokens + 1, query_len, device=DEVICE).int()
    contexts = torch.full((num_seqs,), context, device=DEVICE).int()
    positions = (torch.arange(query_len, device=DEVICE) + context).repeat(num_seqs).int()
    blocks = cache.tables.repeat_interleave(query_len, 0).gather(1, (positions // BLOCK_SIZE).long()[:, None])[:, 0]
    slots = (blocks * BLOCK_SIZE + positions % BLOCK_SIZE).int()
    case = f"{name} {num_seqs} x {query_len}, {context} cached"
    time = graph_microseconds(lambda: rotary_kv_write(qkv, positions, slots, rope, keys, values))
    yield row("rotary + KV write", case, time, 4 * qkv.numel())
    time = graph_microseconds(
        lambda: prefill_attention(qkv, keys, values, cache.tables, starts, contexts, query_len, scale, out)
    )
    pairs = num_seqs * (query_len * query_len / 2 + query_len * context)
    yield row("prefill attention", case, time, 0, 4 * pairs * shape.num_heads * shape.head_dim)


def bench_small(name: str, shape: Shape) -> Iterator[Row]:
    for num_rows in (1, 32, 256):
        case, pdl = f"{name} {num_rows} rows", num_rows <= 128
        hidden, out, weight = (randn(num_rows, shape.hidden_size) for _ in range(3))
        addends = torch.randn(2, num_rows, shape.hidden_size, device=DEVICE)
        time = graph_microseconds(
            lambda: [add_rms_norm(hidden, addends, weight[0], 1e-5, out, pdl=pdl) for _ in range(20)]  # noqa: B023
        )
        yield row("residual + norm", case, time / 20, hidden.numel() * (2 * 3 + 8))
        gate_up, act = randn(num_rows, 2 * shape.intermediate_size), randn(num_rows, shape.intermediate_size)
        time = graph_microseconds(lambda: [silu_mul(gate_up, act, pdl=pdl) for _ in range(20)])  # noqa: B023
        yield row("SiLU x up", case, time / 20, act.numel() * 6)
        yield from bench_sampling(case, num_rows, shape.vocab_size)


def bench_sampling(case: str, num_rows: int, vocab_size: int) -> Iterator[Row]:
    logits = randn(num_rows, vocab_size)
    workspace = SamplingWorkspace.allocate(num_rows, vocab_size, DEVICE)
    out = torch.zeros(num_rows, dtype=torch.int32, device=DEVICE)
    ones = torch.ones(num_rows, device=DEVICE)
    for label, top_k, top_p in (("temperature", 0, 1.0), ("top-k 50", 50, 1.0), ("top-p 0.9", 0, 0.9)):
        params = SamplingTensors(ones, out * 0 + top_k, ones * top_p, ones * 0, out.clone())
        time = graph_microseconds(lambda: sample(logits, params, out, workspace, out))  # noqa: B023
        yield row(f"sample {label}", case, time, 2 * logits.numel())
    yield row("greedy", case, graph_microseconds(lambda: greedy(logits, workspace, out)), 2 * logits.numel())


def weights_in_rotation(out_features: int, in_features: int) -> list[torch.Tensor]:
    count = max(1, round(MIN_BYTES_IN_ROTATION / (2 * out_features * in_features)))
    return [randn(out_features, in_features) * 0.02 for _ in range(count)]


def bench_linear(name: str, shape: Shape) -> Iterator[Row]:
    query_size, kv_size = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    layers = {
        "qkv": (query_size + 2 * kv_size, shape.hidden_size, False, False),
        "output": (shape.hidden_size, query_size, True, False),
        "gate_up": (2 * shape.intermediate_size, shape.hidden_size, False, True),
        "down": (shape.hidden_size, shape.intermediate_size, True, False),
        "head": (shape.vocab_size, shape.hidden_size, False, False),
    }
    for layer, (out_features, in_features, can_split, gated) in layers.items():
        weights = weights_in_rotation(out_features, in_features)
        for num_rows in (1, 16, 32, 64, 128):
            linear_shape = LinearShape(num_rows, out_features, in_features, can_split, gated)
            times = time_candidates(linear_shape, weights)
            best = min(times, key=lambda config: times[config])
            cublas = times.get(LinearConfig("torch"))
            note = f"{best.kernel} {tuple(best[1:])}" + (f", cuBLAS {cublas:.1f}" if cublas else "")
            case = f"{name} {layer} {num_rows} rows"
            yield row("linear", case, times[best], 2.0 * out_features * in_features, note=note)


def time_candidates(shape: LinearShape, weights: list[torch.Tensor]) -> dict[LinearConfig, float]:
    x = randn(shape.num_rows, shape.in_features)
    out = randn(shape.num_rows, shape.out_features // (2 if shape.gated else 1))
    scratch = Scratch(8 * 4 * shape.num_rows * shape.out_features, DEVICE)

    def multiply(weight: torch.Tensor, config: LinearConfig) -> None:
        if config.kernel == "gemv":
            gemv(x, weight, out, config, gated=shape.gated, pdl=True)
        elif shape.gated:
            gated_linear(x, weight, out, scratch, config, pdl=True)
        elif shape.can_split:
            linear_addends(x, weight, scratch, config, pdl=True)
        else:
            linear(x, weight, out, config, pdl=True)

    configs = candidates(shape, has_tma=True)
    if shape.num_rows == 1:
        configs = [LinearConfig("torch"), *gemv_candidates(shape)]
    compile_together([partial(multiply, weights[0], config) for config in configs])

    def multiply_all(config: LinearConfig) -> None:
        for weight in weights:
            multiply(weight, config)

    return {config: graph_microseconds(partial(multiply_all, config)) / len(weights) for config in configs}


def compile_together(launches: list[Callable[[], None]]) -> None:
    """Run each launch once, in threads, so that their compilations overlap."""
    with ThreadPoolExecutor(16, initializer=lambda: torch.zeros(1, device=DEVICE)) as pool:
        for future in [pool.submit(launch) for launch in launches]:
            future.result()
    torch.cuda.synchronize()


BENCHES: dict[str, Callable[[str, Shape], Iterator[Row]]] = {
    "decode_attention": bench_decode_attention,
    "prefix_attention": bench_prefix_attention,
    "prefill_attention": bench_prefill,
    "small": bench_small,
    "linear": bench_linear,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="file to write the rows to, as JSON")
    parser.add_argument("--kernel", choices=BENCHES, action="append", help="only these")
    parser.add_argument("--shape", choices=SHAPES, action="append")
    args = parser.parse_args()
    rows: list[Row] = []
    for name in args.shape or ("llama3-8b", "qwen3-0.6b"):
        for kernel in args.kernel or BENCHES:
            rows += BENCHES[kernel](name, SHAPES[name])
            torch.cuda.empty_cache()
            args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
