"""Roofline floor of a standard workload: the time that no engine can beat on one GPU, to set a measurement against.

Prefill costs its matrix and attention operations at the GPU's measured matrix rate; every decode step reads all weights
once and each sequence's keys and values once at the measured bandwidth. All requests arrive at time 0, are prefilled
together and then decoded together; shared prefixes are computed and read once.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

from bench.workloads import SHAPES, WORKLOADS, Request, Shape, make_workload


@dataclass(frozen=True)
class Device:
    """Measured ceilings: bytes a second read from memory, dense 16-bit operations a second."""

    bytes_per_second: float
    flops: float


H200 = Device(bytes_per_second=4.29e12, flops=676e12)


@dataclass(frozen=True)
class Floor:
    prefill_seconds: float
    decode_seconds: float

    @property
    def seconds(self) -> float:
        return self.prefill_seconds + self.decode_seconds


def _shared_length(prompts: list[list[int]]) -> int:
    """Tokens that all prompts begin with; a prompt alone shares nothing."""
    if len(prompts) < 2:
        return 0
    columns = zip(*prompts, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def floor(
    shape: Shape, requests: list[Request], device: Device = H200, weight_bytes: float = 2, kv_bytes: float = 2
) -> Floor:
    """``weight_bytes`` and ``kv_bytes`` are per element; the output head stays at 2."""
    query_size, kv_size = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    per_layer = shape.hidden_size * (2 * query_size + 2 * kv_size + 3 * shape.intermediate_size)
    body, head = shape.num_layers * per_layer, shape.vocab_size * shape.hidden_size
    shared = _shared_length([prompt for prompt, _ in requests])
    fresh = sum(len(prompt) - shared for prompt, _ in requests) + shared
    pairs = sum(len(prompt) ** 2 - shared**2 for prompt, _ in requests) / 2
    prefill_flops = 2 * body * fresh + 2 * head * len(requests) + 4 * query_size * pairs * shape.num_layers
    weights = body * weight_bytes + head * 2
    decode = 0.0
    for step in range(1, max(length for _, length in requests)):
        live = [len(prompt) - shared + step for prompt, length in requests if length > step]
        kv_read = (sum(live) + shared) * 2 * shape.num_layers * kv_size * kv_bytes
        read_seconds = (weights + kv_read) / device.bytes_per_second
        decode += max(read_seconds, 2 * (body + head) * len(live) / device.flops)
    return Floor(prefill_flops / device.flops, decode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--weight-bytes", type=float, default=2)
    parser.add_argument("--kv-bytes", type=float, default=2)
    args = parser.parse_args()
    requests = make_workload(args.workload)
    result = floor(SHAPES[args.shape], requests, weight_bytes=args.weight_bytes, kv_bytes=args.kv_bytes)
    num_tokens = sum(length for _, length in requests)
    print(
        f"{args.shape} {args.workload}: floor {result.seconds:.3f} s (prefill {result.prefill_seconds:.3f},"
        f" decode {result.decode_seconds:.3f}), {num_tokens / result.seconds:.0f} output tokens/s"
    )


if __name__ == "__main__":
    main()
