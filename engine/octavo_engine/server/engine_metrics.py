"""The engine's own figures, read at scrape time."""

import logging
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from octavo_engine.messages import EngineReady, EngineStats
from octavo_engine.server.interfaces import Engine

logger = logging.getLogger(__name__)

Values = Mapping[str, float]


class EngineCollector(Collector):
    """An engine that cannot answer leaves its figures out; a scrape never fails."""

    def __init__(self, engine: Engine, model: str, alias: str | None) -> None:
        self._engine = engine
        self._model = model
        self._alias = alias

    def collect(self) -> Iterator[Metric]:
        try:
            yield from self._collect(self._engine.stats, self._engine.ready)
        except Exception:
            logger.exception("the engine's metrics could not be read")

    def _collect(self, stats: EngineStats, ready: EngineReady) -> Iterator[Metric]:
        yield from self._gauges(stats)
        yield from self._counters(stats)
        yield _info(self._model, ready)
        if self._alias:
            yield from self._vllm(stats)

    def _gauges(self, stats: EngineStats) -> Iterator[Metric]:
        states = {"running": stats.num_running, "waiting": stats.num_waiting, "swapped": 0}
        blocks = {"total": stats.num_blocks, "used": stats.num_used_blocks, "cached": stats.num_cached_blocks}
        tokens = {state: num_blocks * stats.block_size for state, num_blocks in blocks.items()}
        waiting = {"": stats.num_waiting_prompt_tokens}
        yield self._gauge("kv_cache_usage_ratio", "KV blocks held by live requests over all", {"": usage_ratio(stats)})
        yield self._gauge("kv_cache_tokens", "KV cache in tokens", tokens, "state")
        yield self._gauge("requests", "Sequences by state", states, "state")
        yield self._gauge("waiting_prompt_tokens", "Prompt tokens of the waiting sequences", waiting)
        yield self._gauge("engine_idle", "1 when the engine has nothing to do", {"": float(stats.is_idle)})

    def _counters(self, stats: EngineStats) -> Iterator[Metric]:
        lookups = {"hit": stats.prefix_hit_tokens_total, "miss": stats.prefix_miss_tokens_total}
        kinds = {"recompute": stats.preemptions_total, "swap": 0}
        yield self._counter("prompt_tokens", "Prompt tokens of started sequences", {"": stats.prompt_tokens_total})
        yield self._counter("generation_tokens", "Tokens generated", {"": stats.generation_tokens_total})
        yield self._counter("prefix_cache_tokens", "Prompt tokens looked up in the prefix cache", lookups, "result")
        yield self._counter("preemptions", "Sequences put back for lack of blocks", kinds, "kind")
        yield self._counter("engine_steps", "Steps of the engine", {"": stats.steps_total})
        yield self._counter("engine_steps_shed", "Steps too big for the memory", {"": stats.steps_shed_total})
        yield self._counter("kv_cache_repairs", "Idle checks that found lost blocks", {"": stats.block_repairs_total})

    def _vllm(self, stats: EngineStats) -> Iterator[Metric]:
        lookups = stats.prefix_hit_tokens_total + stats.prefix_miss_tokens_total
        for name, value in {
            "vllm:kv_cache_usage_perc": usage_ratio(stats),
            "vllm:num_requests_running": stats.num_running,
            "vllm:num_requests_waiting": stats.num_waiting,
        }.items():
            yield _fill(GaugeMetricFamily(name, "Alias", labels=["model_name"]), self._model, {"": value})
        for name, value in {
            "vllm:prompt_tokens": stats.prompt_tokens_total,
            "vllm:generation_tokens": stats.generation_tokens_total,
            "vllm:num_preemptions": stats.preemptions_total,
            "vllm:prefix_cache_hits": stats.prefix_hit_tokens_total,
            "vllm:prefix_cache_queries": lookups,
        }.items():
            yield _fill(CounterMetricFamily(name, "Alias", labels=["model_name"]), self._model, {"": value})

    def _gauge(self, name: str, help_text: str, values: Values, label: str | None = None) -> Metric:
        return _fill(GaugeMetricFamily(f"octavo_{name}", help_text, labels=_labels(label)), self._model, values)

    def _counter(self, name: str, help_text: str, values: Values, label: str | None = None) -> Metric:
        return _fill(CounterMetricFamily(f"octavo_{name}", help_text, labels=_labels(label)), self._model, values)


def usage_ratio(stats: EngineStats) -> float:
    """Blocks held by live requests over all, 0 to 1; content kept for reuse counts as free."""
    return stats.num_used_blocks / stats.num_blocks if stats.num_blocks else 0.0


def _labels(label: str | None) -> list[str]:
    return ["model", label] if label else ["model"]


def _fill(family: GaugeMetricFamily | CounterMetricFamily, model: str, values: Values) -> Metric:
    for value_label, value in values.items():
        family.add_metric([model, value_label] if value_label else [model], value)
    return family


def _info(model: str, ready: EngineReady) -> Metric:
    labels = {
        "model": model,
        "version": version("octavo"),
        "device": ready.device,
        "dtype": ready.dtype,
        "attention_backend": ready.attention_backend,
        "block_size": str(ready.block_size),
        "max_model_len": str(ready.max_model_len),
    }
    family = GaugeMetricFamily("octavo_info", "What runs here", labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family
