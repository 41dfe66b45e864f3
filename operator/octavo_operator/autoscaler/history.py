"""What one look adds to the memory (rules 9 and 12)."""

from dataclasses import replace

from octavo_operator.autoscaler.facts import Facts
from octavo_operator.autoscaler.freshness import update_records
from octavo_operator.autoscaler.recommendation import replicas_to_stay
from octavo_operator.autoscaler.types import AutoscalerState, MetricsSpec, Observation, Point
from octavo_operator.autoscaler.window import Points, push_high, push_low, within

LATEST_LOOK_SECONDS = 10.0
"""How late a look may be: it waits for the slowest engine of any service, and for the processor."""


def resume(state: AutoscalerState, seen: Observation, spec: MetricsSpec, now: float) -> AutoscalerState:
    """The state with this look in it: samples taken in, a move of `replicas` noted, a gap in the history found."""
    is_gap = _is_gap(state, spec, now)
    records = tuple(record for record in state.pods if record.newest is None or record.newest.at <= now)
    return replace(
        state,
        observed_since=now if is_gap else state.observed_since,
        replicas=seen.replicas,
        pods=update_records(records, seen),
        changes=_note_move(state, seen, now),
    )


def remember(facts: Facts) -> AutoscalerState:
    """The state with the need of this look in it. A look that saw too little counts as needing what there is."""
    needed = facts.driver.needed if facts.driver else 0.0
    stay = replicas_to_stay(needed, facts.inputs.num_missing, facts.spec.scale_down)
    if facts.is_blind:
        stay = max(stay, float(facts.replicas))
    return replace(
        facts.state,
        decided_at=facts.now,
        highs=push_high(facts.state.highs, facts.now, stay),
        lows=push_low(facts.state.lows, facts.now, needed),
    )


def _is_gap(state: AutoscalerState, spec: MetricsSpec, now: float) -> bool:
    """Nobody looked for longer than a sample counts: a restart, a new leader, or a clock that was moved."""
    if state.decided_at is None:
        return True
    longest = max(spec.stale_after_seconds, 2 * spec.scrape_interval_seconds, LATEST_LOOK_SECONDS)
    return not 0 <= now - state.decided_at <= longest


def _note_move(state: AutoscalerState, seen: Observation, now: float) -> Points:
    """A move shows in the look after the decision that made it, and is dated to that decision."""
    recent = within(state.changes, now)
    move = seen.replicas - state.replicas
    if state.decided_at is None or move == 0:
        return recent
    return (*recent, Point(min(state.decided_at, now), float(move)))
