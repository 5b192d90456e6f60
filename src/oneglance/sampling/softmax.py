"""From logits to probabilities, in float64."""

from __future__ import annotations

import math

import numpy as np

from oneglance.types import Float64Array


def softmax(logits: Float64Array) -> Float64Array:
    """The law [V] of logits [V], of which at least one is finite; −inf gets probability 0."""
    weights = np.exp(logits - logits.max())
    law: Float64Array = weights / weights.sum()
    return law


def log_normalizer(logits: Float64Array) -> float:
    """Log of the sum of exponentials: subtract it from logits to get log-probabilities."""
    best = float(logits.max())
    return best + math.log(float(np.exp(logits - best).sum()))
