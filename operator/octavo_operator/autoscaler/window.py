"""The highest or lowest value of a sliding window.

A point that a newer one outdoes can never be the answer again, so it is dropped: what is left is sorted, the answer is
the first point inside the window, and a state stays small however long the window.
"""

from octavo_operator.autoscaler.types import Point

HORIZON_SECONDS = 3600.0
"""The longest window or period that a spec can ask for."""

Points = tuple[Point, ...]


def within(points: Points, now: float, seconds: float = HORIZON_SECONDS) -> Points:
    """Points of the last `seconds`. Those later than `now` are from a clock that was set back: dropped."""
    return tuple(point for point in points if now - seconds <= point.at <= now)


def push_high(points: Points, at: float, value: float) -> Points:
    return (*(point for point in within(points, at) if point.value > value), Point(at, value))


def push_low(points: Points, at: float, value: float) -> Points:
    return (*(point for point in within(points, at) if point.value < value), Point(at, value))


def extreme(points: Points, now: float, seconds: float, default: float) -> float:
    """The highest of points made by `push_high`, the lowest of points made by `push_low`."""
    inside = within(points, now, seconds)
    return inside[0].value if inside else default
