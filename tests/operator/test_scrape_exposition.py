import math

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from octavo_operator.autoscaler.exposition import ExpositionError, parse_metrics
from octavo_operator.autoscaler.types import EngineMetrics
from tests.operator.engine_answers import ANSWER, FIGURES, render

MEANT = EngineMetrics(
    kv_total_tokens=2048,
    kv_used_tokens=512,
    waiting_prompt_tokens=90,
    num_running=4,
    num_waiting=3,
    num_swapped=1,
    steps_total=1200,
    is_idle=False,
)

NEEDED = [series for series in FIGURES if not any(word in series for word in ("swapped", "cached", "bucket"))]


def test_the_needed_figures_are_read_and_the_rest_is_passed_over() -> None:
    assert parse_metrics(ANSWER) == MEANT


def test_what_prometheus_client_writes_is_read_whatever_the_model_is_called() -> None:
    registry = CollectorRegistry()
    model = 'a } {state="used"} \\ " 5\n b'
    kv = Gauge("octavo_kv_cache_tokens", "KV", ["model", "state"], registry=registry)
    requests = Gauge("octavo_requests", "Requests", ["state", "model"], registry=registry)
    for state, value in {"total": 2048, "used": 512}.items():
        kv.labels(model, state).set(value)
    for state, value in {"running": 4, "waiting": 3, "swapped": 1}.items():
        requests.labels(state, model).set(value)
    Gauge("octavo_waiting_prompt_tokens", "Tokens", ["model"], registry=registry).labels(model).set(90)
    Gauge("octavo_engine_idle", "Idle", ["model"], registry=registry).labels(model).set(0)
    Counter("octavo_engine_steps", "Steps", ["model"], registry=registry).labels(model).inc(1200)
    assert parse_metrics(generate_latest(registry).decode()) == MEANT


def test_an_engine_that_never_swaps_need_not_say_so() -> None:
    figures = {series: value for series, value in FIGURES.items() if "swapped" not in series}
    assert parse_metrics(render(figures)).num_swapped == 0


@pytest.mark.parametrize("series", NEEDED)
def test_a_missing_figure_is_named(series: str) -> None:
    figures = {name: value for name, value in FIGURES.items() if name != series}
    with pytest.raises(ExpositionError, match="is missing") as caught:
        parse_metrics(render(figures))
    assert series.partition("{")[0] in str(caught.value)


@pytest.mark.parametrize("value", ["", "many", "1.2.3", "0x10", "{}"])
def test_a_value_that_is_no_number_is_shown(value: str) -> None:
    figures = {**FIGURES, 'octavo_requests{model="m",state="waiting"}': value}
    with pytest.raises(ExpositionError, match="does not end in a number"):
        parse_metrics(render(figures))


def test_not_a_number_passes_as_it_is_and_is_never_idle() -> None:
    metrics = parse_metrics(ANSWER.replace('idle{model="m"} 0.0', 'idle{model="m"} NaN').replace(" 512.0", " NaN"))
    assert math.isnan(metrics.kv_used_tokens)
    assert not metrics.is_idle


def test_timestamps_are_passed_over() -> None:
    assert parse_metrics(ANSWER.replace(" 512.0", " 512.0 1700000000000")) == MEANT


def test_series_of_several_models_add_up() -> None:
    assert parse_metrics(ANSWER + 'octavo_requests{model="n",state="waiting"} 2\n').num_waiting == 5


def test_an_answer_that_is_cut_off_anywhere_is_refused() -> None:
    last_needed = ANSWER.index("octavo_step_seconds")
    for length in range(last_needed):
        with pytest.raises(ExpositionError):
            parse_metrics(ANSWER[:length])


@pytest.mark.parametrize("text", ["", "\n", "<html>\n", "{}\n", "\x00\n", "octavo_requests\n", "octavo_requests{\n"])
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(ExpositionError):
        parse_metrics(text)
