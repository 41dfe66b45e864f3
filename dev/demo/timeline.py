"""What the demo saw, as plain data, and as the JSON file that it leaves."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.demo.chat import StreamResult


@dataclass(frozen=True)
class Sample:
    """The service at one moment. `t` in seconds since the load began; `kv` is the share of KV cache in use."""

    t: float
    kv: float
    waiting: int
    running: int
    ready: int
    desired: int
    draining: int
    tokens_per_second: float
    decision: str


@dataclass
class Timeline:
    """Everything that is reported at the end."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    results: list[StreamResult] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    _known: set[str] | None = None

    def add_decisions(self, t: float, history: Collection[dict[str, Any]]) -> None:
        """Keep what the status' short history says, each decision once; what was there at the beginning is older."""
        times = {decision["time"] for decision in history}
        if self._known is not None:
            self.decisions += [{"t": t, **decision} for decision in history if decision["time"] not in self._known]
        self._known = times | (self._known or set())

    def replica_counts(self) -> list[int]:
        """Return the numbers of ready replicas in the order in which they appeared, without repetitions in a row."""
        counts: list[int] = []
        for sample in self.samples:
            if not counts or counts[-1] != sample.ready:
                counts.append(sample.ready)
        return counts

    def as_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "streams": len(self.results),
            "cut_streams": sum(result.is_cut for result in self.results),
            "errors": sorted({result.error for result in self.results if result.error}),
            "retried_requests": sum(result.retries for result in self.results),
            "tokens": sum(result.num_tokens for result in self.results),
            "replicas": [{"t": s.t, "ready": s.ready, "desired": s.desired} for s in self.samples],
            "load": [
                {"t": s.t, "kv": s.kv, "waiting": s.waiting, "tokens_per_second": s.tokens_per_second}
                for s in self.samples
            ],
            "decisions": self.decisions,
        }

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")
