"""The load generator: what it asks, when it asks, and what it makes of the answers."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from octavo_engine.bench.client import Target, Timing
from octavo_engine.bench.lengths import parse_lengths
from octavo_engine.bench.load import Load, Outcome, closed_loop, open_loop, run_load
from octavo_engine.bench.report import quantiles, summarize
from octavo_engine.bench.workload import Prompt, Workload, make_prompts
from octavo_engine.cli import main
from octavo_engine.errors import ConfigError

from .server_support import FakeEngine, listening, make_app


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("7", 7, 7), ("uniform:3:5", 3, 5), ("choice:2,9", 2, 9), ("normal:5:100", 1, 1000), ("lognormal:5:0.1", 3, 8)],
)
def test_lengths_are_drawn_as_written(text: str, low: int, high: int) -> None:
    draw = parse_lengths(text)
    rng = random.Random(0)
    assert all(low <= draw(rng) <= high for _ in range(200))


@pytest.mark.parametrize("text", ["", "x", "uniform:3", "uniform:5:3", "choice:", "normal:a:b", "zipf:1:2", "1.5"])
def test_length_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not one of"):
        parse_lengths(text)


def test_prompts_are_reproducible_and_share_their_beginning() -> None:
    workload = Workload(num_prompts=6, input_len="uniform:20:40", output_len="8", prefix_share=0.5, num_prefixes=2)
    prompts = make_prompts(workload)
    assert prompts == make_prompts(workload)
    assert all(20 <= len(prompt.token_ids) <= 40 and prompt.max_tokens == 8 for prompt in prompts)
    assert len({tuple(prompt.token_ids[:10]) for prompt in prompts}) <= 2
    assert len({tuple(prompt.token_ids) for prompt in prompts}) == 6
    assert len(prompts[0].text.split()) == len(prompts[0].token_ids)


async def test_closed_loop_keeps_the_asked_number_in_flight() -> None:
    in_flight = most = 0

    async def ask(_: int) -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0.001)
        in_flight -= 1

    assert len(await closed_loop(range(30), ask, Load(max_concurrency=4))) == 30
    assert most == 4


async def test_open_loop_does_not_wait_for_answers() -> None:
    started = time.perf_counter()

    async def ask(_: int) -> float:
        sent = time.perf_counter() - started
        await asyncio.sleep(0.3)
        return sent

    sent = await open_loop(range(20), ask, Load(request_rate=200, seed=1))
    assert sent == sorted(sent)
    assert 0.02 < sent[-1] < 0.29


async def bench(engine: FakeEngine, target: dict[str, Any] | None = None, **load: Any) -> Outcome:
    prompts = [Prompt(token_ids=[1, 2, 3], max_tokens=14)] * 5
    async with listening(make_app(engine)) as client:
        url = str(client.base_url)
        return await run_load(Target(url, "fake", **(target or {})), prompts, Load(**load))


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_answers_are_counted_and_timed(api: str) -> None:
    report = summarize(await bench(FakeEngine(), {"api": api}, max_concurrency=2, num_warmups=1))
    assert (report["num_completed"], report["num_failed"], report["num_short_answers"]) == (5, 0, 0)
    assert report["output_tokens"] == 5 * 14
    assert report["ttft_ms"].keys() == {"mean", "p50", "p90", "p99", "max"}
    assert report["e2e_ms"]["max"] >= report["ttft_ms"]["p50"] > 0


async def test_refusals_are_failures_with_their_reason() -> None:
    report = summarize(await bench(FakeEngine(), {"extra_body": {"n": 99}}))
    assert report["num_failed"] == 5
    assert "HTTP 400" in next(iter(report["errors"]))


async def test_stream_that_breaks_off_is_a_failure() -> None:
    engine = FakeEngine(num_ungated=2)
    engine.gate.clear()
    running = asyncio.create_task(bench(engine, max_concurrency=5))
    while engine.num_open < 5:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    engine.die("killed")
    report = summarize(await running)
    assert report["errors"] == {"stream: killed": 5}


def test_short_answers_are_counted() -> None:
    timing = Timing(sent=0, first=1, end=2, gaps=[0.5, 0.5], num_output_tokens=3, wanted_tokens=4)
    report = summarize(Outcome([timing], 2))
    assert report["num_short_answers"] == 1
    assert report["tpot_ms"]["mean"] == 500
    assert report["itl_ms"]["p50"] == 500
    assert report["tokens_per_chunk"] == 1


def test_quantiles() -> None:
    assert quantiles([]) is None
    assert quantiles([1]) == {"mean": 1000, "p50": 1000, "p90": 1000, "p99": 1000, "max": 1000}
    values = quantiles([index / 1000 for index in range(101)])
    assert values == {"mean": 50, "p50": 50, "p90": 90, "p99": 99, "max": 100}


def test_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "serve", "--url", "http://127.0.0.1:9"]) == 2
    assert "no server answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.model
def test_throughput_of_the_engine_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    arguments = ["--num-prompts", "4", "--input-len", "16", "--output-len", "4", "--json", str(out)]
    engine_flags = ["bundled://smollm2-135m-instruct", "--kv-cache-memory-gib", "0.1"]
    assert main(["bench", "throughput", *arguments, *engine_flags]) == 0
    report = json.loads(out.read_text())
    assert report["output_tokens"] == 16
    assert "output tokens/s" in capsys.readouterr().out
