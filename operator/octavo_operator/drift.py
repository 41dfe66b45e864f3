"""Whether a live object still says what was rendered. Pure."""

from decimal import Decimal
from typing import Any

SUFFIXES = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTP", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTP", start=1)},
}
QUANTITY_FIELDS = ("requests", "limits")


def is_applied(desired: Any, live: Any) -> bool:
    """Tell whether everything in `desired` is in `live`; what others added, or the server filled in, is left alone.

    Lists of named things match by name, as server-side apply merges them; other lists must be equal in length.
    """
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_has(desired, live, field) for field in desired)
    if isinstance(desired, list):
        return isinstance(live, list) and _matches(desired, live)
    return bool(desired == live)


def _has(desired: dict[str, Any], live: dict[str, Any], field: str) -> bool:
    if field in QUANTITY_FIELDS and isinstance(desired[field], dict):
        return _same_quantities(desired[field], live.get(field) or {})
    if desired[field] in ({}, [], False, ""):
        return not live.get(field) or is_applied(desired[field], live[field])
    return field in live and is_applied(desired[field], live[field])


def _matches(desired: list[Any], live: list[Any]) -> bool:
    if all(isinstance(item, dict) and "name" in item for item in desired):
        named = {item.get("name"): item for item in live if isinstance(item, dict)}
        return all(is_applied(item, named.get(item["name"])) for item in desired)
    return len(desired) == len(live) and all(map(is_applied, desired, live))


def _same_quantities(desired: dict[str, str], live: dict[str, str]) -> bool:
    return all(name in live and quantity(desired[name]) == quantity(live[name]) for name in desired)


def quantity(text: str) -> Decimal:
    """Return the number that a Kubernetes quantity stands for."""
    digits = text.rstrip("mkKMGTPi")
    return Decimal(digits) * SUFFIXES[text[len(digits) :]]
