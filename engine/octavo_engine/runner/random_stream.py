"""Random numbers by counting: the n-th draw of a stream is a function of its key and n.

A request's draws then depend on nothing but its seed: not on who shares the batch, nor on being preempted in between.
Source: SplitMix64 (Steele, Lea, Flood 2014), whose n-th output is a mix of key + n * the golden ratio.
"""

import numpy as np
from numpy.typing import NDArray

from octavo_engine.attention.interface import IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

Keys = NDArray[np.uint64]


def stream_key(seed: int) -> np.uint64:
    """Mixed, so that neighbouring seeds give unrelated streams."""
    key: np.uint64 = _mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))[0]
    return key


def uniform(keys: Keys, num_draws: IntArray) -> NDArray[np.float64]:
    """In [0, 1): the draw of each stream after `num_draws` earlier ones."""
    bits = _mix(keys + (num_draws.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: Keys) -> Keys:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))
