"""Which engines can be believed now (rule 1).

A sample is trusted if its figures are possible and the engine is not seen to stand still with work pending. A trusted
sample counts while it is younger than `staleAfterSeconds`: one lost scrape, or one long step, changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from octavo_operator.autoscaler.types import EngineMetrics, MetricsSpec, Observation, PodRecord, PodSample, Problem

LARGEST_FIGURE = 1e15


@dataclass(frozen=True, slots=True)
class PodReading:
    """One pod after the look: `metrics` if it is fresh, else the `problem`."""

    pod: str
    is_ready: bool
    metrics: EngineMetrics | None
    problem: Problem | None


def update_records(records: tuple[PodRecord, ...], seen: Observation) -> tuple[PodRecord, ...]:
    """Take in new samples of ready pods. A pod keeps its record, whatever its phase, until it is gone."""
    known = {record.pod: record for record in records}
    samples = {sample.pod: sample for sample in seen.samples}
    looked_at = (
        _look(known.get(pod.name), samples.get(pod.name), pod.name) if pod.phase == "Ready" else known.get(pod.name)
        for pod in seen.pods
    )
    return tuple(record for record in looked_at if record is not None)


def read_pods(
    records: tuple[PodRecord, ...], seen: Observation, spec: MetricsSpec, now: float
) -> tuple[PodReading, ...]:
    """Every pod that could carry load: those with a record, except for draining ones. Only a ready pod can be fresh."""
    known = {record.pod: record for record in records}
    return tuple(
        _read(known[pod.name], pod.phase == "Ready", spec, now)
        for pod in seen.pods
        if pod.name in known and pod.phase != "Draining"
    )


def find_impossible(metrics: EngineMetrics) -> str | None:
    """The first figure that cannot be, in words, or None."""
    for name, value in _figures(metrics).items():
        if not 0 <= value <= LARGEST_FIGURE:  # which not-a-number is not either
            return f"{name} is {value}"
    if metrics.kv_total_tokens < 1:
        return "there are no KV tokens"
    if metrics.kv_used_tokens > metrics.kv_total_tokens:
        return f"{metrics.kv_used_tokens:g} of {metrics.kv_total_tokens:g} KV tokens are used"
    return None


def _figures(metrics: EngineMetrics) -> Mapping[str, float]:
    return {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "is_idle"}


def _look(record: PodRecord | None, sample: PodSample | None, pod: str) -> PodRecord:
    record = record or PodRecord(pod, problem=Problem("Stale", "not heard of yet"))
    if sample is None or _is_old(sample, record):
        return record
    if sample.metrics is None:
        return replace(record, problem=Problem("Unreachable", sample.failure or "the scrape failed"))
    impossible = find_impossible(sample.metrics)
    if impossible:
        return replace(record, problem=Problem("Invalid", impossible))
    problem = _find_no_progress(record.newest, sample.metrics)
    trusted = record.trusted if problem else sample
    return replace(record, newest=sample, trusted=trusted, problem=problem)


def _is_old(sample: PodSample, record: PodRecord) -> bool:
    """A sample is looked at once: a second look would find the counter where the first one left it."""
    return record.newest is not None and sample.at <= record.newest.at


def _find_no_progress(previous: PodSample | None, metrics: EngineMetrics) -> Problem | None:
    """Two samples are needed to tell: work that came since the engine was idle may still wait for its first step."""
    before = previous.metrics if previous else None
    if before is None:
        return None
    if metrics.steps_total < before.steps_total:
        return Problem("Restarted", f"the step counter fell from {before.steps_total:g} to {metrics.steps_total:g}")
    if metrics.steps_total == before.steps_total and metrics.has_work and before.has_work:
        return Problem("Frozen", f"the step counter stands at {metrics.steps_total:g} with work pending")
    return None


def _read(record: PodRecord, is_ready: bool, spec: MetricsSpec, now: float) -> PodReading:
    trusted = record.trusted
    if is_ready and trusted is not None and 0 <= now - trusted.at < spec.stale_after_seconds:
        return PodReading(record.pod, is_ready, trusted.metrics, None)
    return PodReading(record.pod, is_ready, None, record.problem or Problem("Stale", "no new sample"))
