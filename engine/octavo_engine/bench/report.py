"""Figures of one run: as JSON, and as a table to read."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from octavo_engine.bench.client import Timing
from octavo_engine.bench.load import Outcome

LATENCIES = {
    "ttft_ms": "time to first token",
    "tpot_ms": "time per output token",
    "itl_ms": "inter-token latency",
    "e2e_ms": "request latency",
}


def summarize(outcome: Outcome) -> dict[str, Any]:
    """Throughput and latencies of the requests that succeeded; the others are counted by the kind of their error."""
    done = [timing for timing in outcome.timings if not timing.error]
    num_in = sum(timing.num_prompt_tokens for timing in done)
    num_out = sum(timing.num_output_tokens for timing in done)
    return {
        "seconds": round(outcome.seconds, 3),
        "num_completed": len(done),
        "num_failed": len(outcome.timings) - len(done),
        "errors": dict(Counter(timing.error for timing in outcome.timings if timing.error).most_common(5)),
        "num_short_answers": sum(timing.num_output_tokens < timing.wanted_tokens for timing in done),
        "prompt_tokens": num_in,
        "cached_tokens": sum(timing.num_cached_tokens for timing in done),
        "output_tokens": num_out,
        "requests_per_second": round(len(done) / outcome.seconds, 3),
        "output_tokens_per_second": round(num_out / outcome.seconds, 2),
        "total_tokens_per_second": round((num_in + num_out) / outcome.seconds, 2),
        "tokens_per_chunk": round(num_out / max(1, sum(timing.num_chunks for timing in done)), 3),
        "ttft_ms": quantiles([timing.first - timing.sent for timing in done if timing.first is not None]),
        "tpot_ms": quantiles([seconds for timing in done if (seconds := _seconds_per_token(timing)) is not None]),
        "itl_ms": quantiles([gap for timing in done for gap in timing.gaps]),
        "e2e_ms": quantiles([timing.end - timing.sent for timing in done]),
    }


def quantiles(seconds: Sequence[float]) -> dict[str, float] | None:
    """Mean, quantiles and maximum in milliseconds; None of nothing."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    cuts = statistics.quantiles(ordered, n=100, method="inclusive") if len(ordered) > 1 else ordered * 99
    values = {"mean": statistics.fmean(ordered), "p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": ordered[-1]}
    return {name: round(value * 1000, 3) for name, value in values.items()}


def show(report: dict[str, Any], console: Console) -> None:
    console.print(
        f"{report['num_completed']} requests in {report['seconds']} s, {report['num_failed']} failed; "
        f"{report['output_tokens_per_second']} output tokens/s, {report['total_tokens_per_second']} in all, "
        f"{report['requests_per_second']} requests/s",
        soft_wrap=True,
    )
    table = Table("milliseconds", "mean", "p50", "p90", "p99", "max")
    for key, title in LATENCIES.items():
        if values := report.get(key):
            table.add_row(title, *(f"{value:.1f}" for value in values.values()))
    if table.row_count:
        console.print(table)
    for error, count in report["errors"].items():
        console.print(f"{count} times: {error}", markup=False)


def _seconds_per_token(timing: Timing) -> float | None:
    if timing.first is None or timing.num_output_tokens < 2:
        return None
    return (timing.end - timing.first) / (timing.num_output_tokens - 1)
