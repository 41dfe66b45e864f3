"""Output throughput on the CPU, beside transformers' static batching, in one run.

    python -m bench.cpu [--repeats 3] [--concurrency 1 8 32] [--output out/bench-cpu.json]

Both engines get the same prompts, weights, dtype and threads, and waiting threads that sleep. Each lives in its own
process; they take turns, so that a busy machine slows both alike, and the best of the repeats counts. Starting is from
the launch of the process to the first moment it could serve, with the converted model in the cache.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from octavo_engine.models import resolve_model
from octavo_engine.runner.host import num_usable_cpus

MODEL = "bundled://smollm2-135m-instruct"
DTYPE = "bfloat16"
NUM_PROMPT_TOKENS = 128
NUM_OUTPUT_TOKENS = 64

Prompts = list[list[int]]


class Engine(Protocol):
    def generate(self, prompts: Prompts) -> int:
        """Answers all prompts with NUM_OUTPUT_TOKENS each; returns the number of tokens made."""
        ...


class Octavo:
    def __init__(self, directory: Path, num_threads: int) -> None:
        from octavo_engine.llm import LLM

        self._llm = LLM(str(directory), dtype=DTYPE, device="cpu", num_threads=num_threads, max_model_len=2048)

    def generate(self, prompts: Prompts) -> int:
        from octavo_engine.sampling_params import SamplingParams

        params = SamplingParams(temperature=0.0, max_tokens=NUM_OUTPUT_TOKENS, ignore_eos=True)
        outputs = self._llm.generate(list(prompts), params, progress=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)


class Transformers:
    def __init__(self, directory: Path, num_threads: int) -> None:
        import torch
        import transformers

        torch.set_num_threads(num_threads)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, DTYPE))

    def generate(self, prompts: Prompts) -> int:
        import torch

        ids = torch.tensor(prompts)
        output = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            min_new_tokens=NUM_OUTPUT_TOKENS,
            max_new_tokens=NUM_OUTPUT_TOKENS,
            do_sample=False,
        )
        return int(output.numel() - ids.numel())


ENGINES: dict[str, Callable[[Path, int], Engine]] = {"octavo": Octavo, "transformers-static": Transformers}


@dataclass(frozen=True)
class Row:
    engine: str
    concurrency: int
    output_tokens_per_second: float
    start_seconds: float
    rss_bytes: int


class Worker:
    """One engine in its own process, asked over pipes to generate."""

    def __init__(self, engine: str, num_threads: int) -> None:
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "TRANSFORMERS_VERBOSITY": "error"}
        command = [sys.executable, "-m", "bench.cpu", "--worker", engine, "--threads", str(num_threads)]
        started = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._read()
        self.engine = engine
        self.start_seconds = time.perf_counter() - started

    def generate(self, prompts: Prompts) -> tuple[float, int]:
        """(output tokens per second, resident bytes afterwards)"""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(prompts) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return answer["tokens"] / answer["seconds"], answer["rss_bytes"]

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the benchmark's process ended with status {self._process.wait()}; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def serve_worker(engine: str, num_threads: int) -> None:
    """The other side of `Worker`."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    loaded = ENGINES[engine](resolve_model(MODEL), num_threads)
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        prompts = json.loads(line)
        started = time.perf_counter()
        tokens = loaded.generate(prompts)
        seconds = time.perf_counter() - started
        reply = {"tokens": tokens, "seconds": seconds, "rss_bytes": resident_bytes()}
        print(json.dumps(reply), file=replies, flush=True)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def make_prompts(num_prompts: int, seed: int) -> Prompts:
    """Different in every repeat, so that no cache of prefixes helps."""
    generator = random.Random(seed)
    return [[generator.randrange(100, 49000) for _ in range(NUM_PROMPT_TOKENS)] for _ in range(num_prompts)]


def measure(workers: list[Worker], concurrencies: list[int], repeats: int) -> Iterator[Row]:
    for concurrency in concurrencies:
        best: dict[str, tuple[float, int]] = {}
        for repeat in range(repeats):
            prompts = make_prompts(concurrency, seed=1000 * concurrency + repeat)
            for worker in workers:
                print(f"  {worker.engine}, {concurrency} concurrent, repeat {repeat + 1} of {repeats}", file=sys.stderr)
                best[worker.engine] = max(best.get(worker.engine, (0.0, 0)), worker.generate(prompts))
        for worker in workers:
            throughput, rss = best[worker.engine]
            yield Row(worker.engine, concurrency, round(throughput, 1), round(worker.start_seconds, 2), rss)


def print_table(rows: list[Row]) -> None:
    baseline = {row.concurrency: row.output_tokens_per_second for row in rows if row.engine == "transformers-static"}
    print(f"{'engine':<20} {'concurrent':>10} {'output tok/s':>12} {'ratio':>6} {'start s':>8} {'RSS MB':>7}")
    for row in rows:
        ratio = row.output_tokens_per_second / baseline[row.concurrency]
        print(
            f"{row.engine:<20} {row.concurrency:>10} {row.output_tokens_per_second:>12.1f} {ratio:>6.2f}"
            f" {row.start_seconds:>8.2f} {row.rss_bytes / 1e6:>7.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=num_usable_cpus())
    parser.add_argument("--output", type=Path, default=Path("out/bench-cpu.json"))
    parser.add_argument("--worker", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve_worker(options.worker, options.threads)
        return
    resolve_model(MODEL)
    workers = [Worker(engine, options.threads) for engine in ENGINES]
    rows = list(measure(workers, options.concurrency, options.repeats))
    for worker in workers:
        worker.close()
    print_table(rows)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
