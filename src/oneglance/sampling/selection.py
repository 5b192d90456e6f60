"""The largest of many values without sorting them all; ties always go to the lowest index."""

from __future__ import annotations

import numpy as np

from oneglance.types import Float32Array, Float64Array, IntArray


def largest(values: Float32Array | Float64Array, count: int) -> IntArray:
    """Indices of the `count` largest values, in ascending order of index.

    Args:
        values: [V] without NaN; −inf is a value like any other.
        count: how many, at least 1; all of them if V is smaller.
    """
    if count >= len(values):
        return np.arange(len(values), dtype=np.int64)
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > threshold)
    tied = np.flatnonzero(values == threshold)[: count - len(above)]
    return np.sort(np.concatenate([above, tied]))


def ranked(values: Float32Array | Float64Array, count: int) -> IntArray:
    """Indices of the `count` largest values, best first; arguments as for `largest`."""
    indices = largest(values, count)
    order: IntArray = np.argsort(-values[indices], kind="stable")
    return indices[order]
