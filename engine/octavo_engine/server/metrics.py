"""What the operator, dashboards and alerts read. Names and labels are a contract, pinned by a test."""

import time
from collections.abc import Iterable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest

from octavo_engine.messages import EngineStats, TokenEvent
from octavo_engine.server.engine_metrics import EngineCollector
from octavo_engine.server.interfaces import Engine

FINISH_REASONS = ("stop", "length", "abort", "error")
REJECTIONS = ("queue_full", "draining", "invalid")
STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TOKEN_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10)
REQUEST_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)

VLLM_HISTOGRAMS = {
    "octavo_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
    "octavo_inter_token_seconds": "vllm:inter_token_latency_seconds",
    "octavo_request_seconds": "vllm:e2e_request_latency_seconds",
    "octavo_queue_seconds": "vllm:request_queue_time_seconds",
    "octavo_prefill_seconds": "vllm:request_prefill_time_seconds",
}


class Metrics:
    """Histograms and counters of the server, and on each scrape the engine's own figures."""

    def __init__(self, engine: Engine, model: str, alias: Literal["vllm"] | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._model = model
        self._alias = alias
        self.time_to_first_token = self._histogram("time_to_first_token", REQUEST_BUCKETS, "arrival to first token")
        self.inter_token = self._histogram("inter_token", TOKEN_BUCKETS, "between deliveries of one sequence")
        self.request = self._histogram("request", REQUEST_BUCKETS, "arrival to last token")
        self.queue = self._histogram("queue", REQUEST_BUCKETS, "arrival to the first step that computes it")
        self.prefill = self._histogram("prefill", REQUEST_BUCKETS, "first step to first token")
        self.step = self._histogram("step", STEP_BUCKETS, "one step of the engine")
        self._finished = self._counter("requests_finished", "Sequences that ended", "reason", FINISH_REASONS)
        self._rejected = self._counter("requests_rejected", "Requests that were turned away", "reason", REJECTIONS)
        self._registry.register(EngineCollector(engine, model, alias))
        engine.on_step = self._observe_step

    def _observe_step(self, stats: EngineStats) -> None:
        self.step.observe(stats.step_seconds)

    def finish(self, reason: str) -> None:
        self._finished.labels(self._model, reason).inc()

    def reject(self, reason: str) -> None:
        self._rejected.labels(self._model, reason).inc()

    def render(self) -> bytes:
        """The Prometheus text format."""
        text = generate_latest(self._registry)
        return text + self._aliases(text) if self._alias else text

    def _aliases(self, text: bytes) -> bytes:
        """Our histograms once more under vLLM's names."""
        lines = []
        for line in text.decode().splitlines(keepends=True):
            for ours, theirs in VLLM_HISTOGRAMS.items():
                if ours in line:
                    lines.append(line.replace(ours, theirs).replace('model="', 'model_name="'))
        return "".join(lines).encode()

    def _histogram(self, name: str, buckets: tuple[float, ...], help_text: str) -> Histogram:
        histogram = Histogram(
            f"octavo_{name}_seconds", f"Seconds: {help_text}", ["model"], buckets=buckets, registry=self._registry
        )
        return histogram.labels(self._model)

    def _counter(self, name: str, help_text: str, label: str, values: Iterable[str]) -> Counter:
        counter = Counter(f"octavo_{name}", help_text, ["model", label], registry=self._registry)
        for value in values:
            counter.labels(self._model, value)
        return counter


class SequenceTimer:
    """Times of one sequence. `finish_reason` stays "abort" until somebody knows better."""

    def __init__(self, metrics: Metrics, arrived: float) -> None:
        self._metrics = metrics
        self._arrived = arrived
        self._last: float | None = None
        self.finish_reason = "abort"

    def deliver(self, event: TokenEvent) -> None:
        now = time.monotonic()
        if self._last is None:
            self._metrics.time_to_first_token.observe(now - self._arrived)
            self._metrics.queue.observe(max(0.0, event.started_at - self._arrived))
            self._metrics.prefill.observe(now - max(event.started_at, self._arrived))
        else:
            self._metrics.inter_token.observe((now - self._last) / max(1, len(event.token_ids)))
        self._last = now

    def close(self) -> None:
        self._metrics.finish(self.finish_reason)
        self._metrics.request.observe(time.monotonic() - self._arrived)
