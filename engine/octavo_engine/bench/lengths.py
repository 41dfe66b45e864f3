"""Distributions of lengths, written on the command line as `128`, `uniform:64:256` and the like."""

import math
import random
from collections.abc import Callable

from octavo_engine.errors import ConfigError

Draw = Callable[[random.Random], int]

FORMS = "N, uniform:LOW:HIGH, choice:A,B,C, normal:MEAN:STD or lognormal:MEDIAN:SIGMA"


def parse_lengths(text: str) -> Draw:
    """A function that draws lengths of at least 1. Raises ConfigError."""
    kind, _, rest = text.partition(":")
    try:
        draw = _constant(text) if not rest else _KINDS[kind](rest)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"length {text!r} is not one of {FORMS}") from error
    return lambda rng: max(1, draw(rng))


def _constant(text: str) -> Draw:
    value = int(text)
    return lambda _: value


def _uniform(text: str) -> Draw:
    low, high = map(int, text.split(":"))
    if low > high:
        raise ValueError(text)
    return lambda rng: rng.randint(low, high)


def _choice(text: str) -> Draw:
    values = [int(value) for value in text.split(",")]
    return lambda rng: rng.choice(values)


def _normal(text: str) -> Draw:
    mean, std = map(float, text.split(":"))
    return lambda rng: round(rng.gauss(mean, std))


def _lognormal(text: str) -> Draw:
    median, sigma = map(float, text.split(":"))
    mu = math.log(median)
    return lambda rng: round(rng.lognormvariate(mu, sigma))


_KINDS = {"uniform": _uniform, "choice": _choice, "normal": _normal, "lognormal": _lognormal}
