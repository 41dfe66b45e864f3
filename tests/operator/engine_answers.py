"""Answers of an engine's /metrics, as text."""

from collections.abc import Mapping

FIGURES: Mapping[str, object] = {
    'octavo_kv_cache_tokens{model="m",state="total"}': 2048.0,
    'octavo_kv_cache_tokens{model="m",state="used"}': 512.0,
    'octavo_kv_cache_tokens{model="m",state="cached"}': 128.0,
    'octavo_requests{model="m",state="running"}': 4.0,
    'octavo_requests{model="m",state="waiting"}': 3.0,
    'octavo_requests{model="m",state="swapped"}': 1.0,
    'octavo_waiting_prompt_tokens{model="m"}': 90.0,
    'octavo_engine_steps_total{model="m"}': 1.2e3,
    'octavo_engine_idle{model="m"}': 0.0,
    'octavo_step_seconds_bucket{model="m",le="+Inf"}': 9.0,
}


def render(figures: Mapping[str, object] = FIGURES) -> str:
    lines = ["# HELP octavo_requests Requests by state.", "# TYPE octavo_requests gauge", ""]
    return "\n".join([*lines, *(f"{series} {value}" for series, value in figures.items())]) + "\n"


ANSWER = render()
