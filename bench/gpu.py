"""The standard workloads through `LLM.generate` on one GPU, beside the roofline floor and vLLM's recorded time.

python -m bench.gpu [--shape SHAPE] [--workload WORKLOAD] [--repeats N] [--out FOLDER]
Weights are random; prompts arrive together; greedy, end tokens ignored; the best of the repeats counts, each with its
own prompts. Rows go to FOLDER as Markdown and JSON, with the commit and the date.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.floor import H200, floor
from bench.workloads import SHAPES, WORKLOADS, make_workload
from octavo_engine.config import EngineConfig
from octavo_engine.llm import LLM
from octavo_engine.models import load_model_config
from octavo_engine.runner.cuda_load import load_cuda
from octavo_engine.sampling_params import SamplingParams

Row = dict[str, object]

# vLLM 0.24 with torch 2.11 on the same kind of GPU: best of 3, seconds.
VLLM_SECONDS = {
    ("llama3-8b", "tuning"): 6.85,
    ("llama3-8b", "mixed"): 15.07,
    ("llama3-8b", "concurrent100"): 3.59,
    ("llama3-8b", "single"): 1.263,
    ("llama3-8b", "batch32"): 1.500,
    ("llama3-8b", "long"): 4.55,
    ("llama3-8b", "shared"): 1.133,
    ("qwen3-0.6b", "tuning"): 2.26,
    ("qwen3-0.6b", "mixed"): 6.43,
    ("qwen3-0.6b", "single"): 0.429,
    ("qwen3-0.6b", "batch32"): 0.519,
}


class NoText:
    """Stands for the tokenizer, which vLLM's figures do without: tokens in, tokens out."""

    def detokenizer(self, *_: object) -> NoText:
        return self

    def push(self, _: list[int]) -> str:
        return ""

    def flush(self) -> str:
        return ""

    @property
    def stop_reason(self) -> str | None:
        return None


def load_llm(shape: str, folder: Path) -> LLM:
    """An engine with random weights of this shape."""
    (folder / "config.json").write_text(json.dumps(SHAPES[shape].config()))
    config = EngineConfig(model=str(folder), device="cuda", load_format="dummy", max_num_seqs=256)
    runner, ready = load_cuda(config, folder, load_model_config(folder))
    return LLM.from_parts(config, runner, ready, NoText())  # type: ignore[arg-type]


def run(llm: LLM, workload: str, seed: int) -> float:
    """Seconds for all requests of a workload."""
    requests = make_workload(workload, seed=seed)
    params = [SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=length) for _, length in requests]
    started = time.perf_counter()
    outputs = llm.generate([prompt for prompt, _ in requests], params, progress=False)
    seconds = time.perf_counter() - started
    lengths = [len(output.outputs[0].token_ids) for output in outputs]
    if lengths != [length for _, length in requests]:
        raise RuntimeError(f"{workload}: outputs are not as long as asked for")
    return seconds


def measure(llm: LLM, shape: str, workload: str, repeats: int) -> Row:
    times = [run(llm, workload, seed) for seed in range(repeats)]
    if workload == "mixed":
        times = times[:1]  # the lengths differ by seed, and vLLM's figure is of the first
    requests = make_workload(workload)
    seconds = min(times)
    vllm = VLLM_SECONDS.get((shape, workload))
    row: Row = {
        "shape": shape,
        "workload": workload,
        "seconds": round(seconds, 3),
        "output_tokens_per_second": round(sum(length for _, length in requests) / seconds, 1),
        "of_floor": round(floor(SHAPES[shape], requests, H200).seconds / seconds, 3),
        "of_vllm": round(vllm / seconds, 3) if vllm else None,
        "all_seconds": [round(value, 3) for value in times],
    }
    print(json.dumps(row), flush=True)
    return row


def to_markdown(rows: list[Row], note: str) -> str:
    columns = ("shape", "workload", "seconds", "output_tokens_per_second", "of_floor", "of_vllm")
    lines = [note, "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(rows: list[Row], folder: Path) -> None:
    import torch

    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    now = datetime.now(UTC)
    note = f"{now:%Y-%m-%d %H:%M} UTC, commit {commit}, {torch.cuda.get_device_name()}, torch {torch.__version__}"
    name = f"gpu-{now:%Y%m%d-%H%M}"
    (folder / f"{name}.json").write_text(json.dumps({"note": note, "rows": rows}, indent=1) + "\n")
    (folder / f"{name}.md").write_text(to_markdown(rows, note))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", choices=("llama3-8b", "qwen3-0.6b"), action="append")
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for shape in args.shape or ("llama3-8b", "qwen3-0.6b"):
        with tempfile.TemporaryDirectory() as folder:
            llm = load_llm(shape, Path(folder))
            run(llm, "single", seed=100)
            rows += [measure(llm, shape, workload, args.repeats) for workload in args.workload or WORKLOADS]
            del llm
        write(rows, args.out)
    print(to_markdown(rows, ""))


if __name__ == "__main__":
    main()
