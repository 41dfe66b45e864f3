"""Throughput of the engine alone: all prompts at once, no HTTP and no text."""

import asyncio
import time
from collections.abc import Sequence

from octavo_engine.bench.client import Timing
from octavo_engine.bench.load import Load, Outcome, closed_loop
from octavo_engine.bench.workload import Prompt
from octavo_engine.config import EngineConfig
from octavo_engine.engine_client import EngineClient
from octavo_engine.sampling_params import SamplingParams


async def run_offline(config: EngineConfig, prompts: Sequence[Prompt], load: Load) -> Outcome:
    """Greedy, end tokens ignored. Raises EngineStartError, EngineDead, RequestFailed."""
    engine = EngineClient(config)
    await engine.start()

    async def ask(prompt: Prompt) -> Timing:
        return await _measure(engine, prompt)

    try:
        await asyncio.gather(*map(ask, prompts[: load.num_warmups]))
        started = time.perf_counter()
        timings = await closed_loop(prompts, ask, load)
        return Outcome(timings, time.perf_counter() - started)
    finally:
        await engine.close()


async def _measure(engine: EngineClient, prompt: Prompt) -> Timing:
    timing = Timing(sent=time.perf_counter(), wanted_tokens=prompt.max_tokens)
    last = timing.sent
    params = SamplingParams(max_tokens=prompt.max_tokens, temperature=0.0, ignore_eos=True)
    async with engine.generate(prompt.token_ids, params) as events:
        async for event in events:
            now = time.perf_counter()
            if timing.first is None:
                timing.first = now
            else:
                timing.gaps.append(now - last)
            last = now
            timing.num_output_tokens += len(event.token_ids)
            timing.num_cached_tokens = event.num_cached_tokens
    timing.num_prompt_tokens = len(prompt.token_ids)
    timing.end = time.perf_counter()
    return timing
