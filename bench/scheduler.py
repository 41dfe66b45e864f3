"""Microseconds of Python per decode step with 256 running sequences: `python bench/scheduler.py`."""

import argparse
import time

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import StepResult
from octavo_engine.core.request import Request
from octavo_engine.core.scheduler import Scheduler
from octavo_engine.messages import AddRequest
from octavo_engine.sampling_params import SamplingParams


def build(num_seqs: int, context: int, num_steps: int) -> Scheduler:
    """A scheduler whose sequences have finished their prefill and decode for `num_steps` more."""
    config = EngineConfig(model="none", max_num_seqs=num_seqs, max_num_batched_tokens=num_seqs * context)
    num_blocks = num_seqs * ((context + num_steps) // config.block_size + 2)
    scheduler = Scheduler(config, num_blocks, max_model_len=1 << 20)
    for i in range(num_seqs):
        prompt = [i, *range(context - 1)]
        params = SamplingParams(max_tokens=num_steps + 2, temperature=0)
        scheduler.add(Request(AddRequest(f"{i}", prompt, params), i))
    step(scheduler)
    return scheduler


def step(scheduler: Scheduler) -> tuple[float, float]:
    """Seconds spent in schedule and in commit."""
    started = time.perf_counter()
    batch = scheduler.schedule()
    scheduled = time.perf_counter()
    assert batch
    result = StepResult([1] * sum(batch.is_sampling))
    ready = time.perf_counter()
    scheduler.commit(result)
    return scheduled - started, time.perf_counter() - ready


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-seqs", type=int, default=256)
    parser.add_argument("--num-steps", type=int, default=500)
    args = parser.parse_args()
    for context in (128, 1024, 8192):
        scheduler = build(args.num_seqs, context, args.num_steps)
        times = [step(scheduler) for _ in range(args.num_steps)]
        schedule, commit = (sorted(column)[len(column) // 2] * 1e6 for column in zip(*times, strict=True))
        worst = max(map(sum, times)) * 1e6
        print(
            f"{args.num_seqs} sequences, context {context:>5}: schedule {schedule:6.0f} µs, commit {commit:6.0f} µs,"
            f" median step {schedule + commit:6.0f} µs, worst {worst:6.0f} µs"
        )


if __name__ == "__main__":
    main()
