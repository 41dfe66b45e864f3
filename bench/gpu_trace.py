"""What the host does in each step of a workload on a GPU, and whether the device had to wait for it.

python -m bench.gpu_trace SHAPE WORKLOAD...
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.gpu import load_llm, run
from bench.workloads import SHAPES, WORKLOADS
from octavo_engine.core.batch import Batch, ModelRunner, PendingStep, StepResult


@dataclass
class Step:
    num_tokens: int
    is_decode: bool
    submitted: float
    submit_seconds: float
    wait_seconds: float = 0.0
    done: float = 0.0


@dataclass
class TracedRunner:
    """Passes everything on and notes when."""

    runner: ModelRunner
    steps: list[Step] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def submit(self, batch: Batch) -> PendingStep:
        started = time.perf_counter()
        pending = self.runner.submit(batch)
        is_decode = max(batch.num_new_tokens, default=0) == 1
        step = Step(batch.num_tokens, is_decode, started, time.perf_counter() - started)
        self.steps.append(step)
        return TracedStep(pending, step)


@dataclass
class TracedStep:
    pending: PendingStep
    step: Step

    def result(self) -> StepResult:
        started = time.perf_counter()
        result = self.pending.result()
        self.step.done = time.perf_counter()
        self.step.wait_seconds = self.step.done - started
        return result


class GarbageClock:
    """Seconds that the interpreter's collections took."""

    def __init__(self) -> None:
        self.seconds = self._started = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._started = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._started


def report(steps: list[Step], seconds: float) -> None:
    """Times in ms. `other` is the host's work between steps: scheduling, taking in tokens, the caller's own."""
    previous = steps[0].submitted
    for kind in (True, False):
        chosen = [step for step in steps if step.is_decode is kind]
        if not chosen:
            continue
        waits, submits = [
            [1e3 * value for value in values]
            for values in zip(*((step.wait_seconds, step.submit_seconds) for step in chosen), strict=True)
        ]
        print(
            f"  {'decode' if kind else 'mixed '} {len(chosen):5} steps, {sum(s.num_tokens for s in chosen)} tokens;"
            f" submit median {statistics.median(submits):.3f} max {max(submits):.1f} sum {sum(submits):.0f};"
            f" wait median {statistics.median(waits):.3f} max {max(waits):.1f} sum {sum(waits):.0f}"
        )
    busy = sum(step.submit_seconds + step.wait_seconds for step in steps)
    print(f"  other host work {1e3 * (seconds - busy):.0f} ms of {1e3 * seconds:.0f}")
    gaps = []
    for step in steps:
        gaps.append((step.done - max(previous, step.submitted), step))
        previous = step.done
    for gap, step in sorted(gaps, key=lambda pair: -pair[0])[:6]:
        print(f"    slow step: {1e3 * gap:.1f} ms for {step.num_tokens} tokens, submit {1e3 * step.submit_seconds:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("workloads", choices=WORKLOADS, nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        llm = load_llm(args.shape, Path(folder))
        traced = TracedRunner(llm._core._runner)
        llm._core._runner = traced  # type: ignore[assignment]
        garbage = GarbageClock()
        for workload in args.workloads:
            for seed in range(2):
                traced.steps.clear()
                garbage.seconds = 0.0
                seconds = run(llm, workload, seed)
                print(
                    f"{args.shape} {workload} seed {seed}: {seconds:.3f} s, collecting {garbage.seconds:.3f} s",
                    flush=True,
                )
                report(traced.steps, seconds)


if __name__ == "__main__":
    main()
