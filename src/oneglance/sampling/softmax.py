"""From logits to probabilities, in float64."""

from __future__ import annotations

import numpy as np

from oneglance.sampling.row_kernels import contiguous, row_kernels
from oneglance.types import Float32Array, Float64Array


def softmax(logits: Float64Array) -> Float64Array:
    """The law [V] of logits [V], of which at least one is finite; −inf gets probability 0.

    Weights are `elementary.exp` of the distance to the largest logit, so that one below e^-708
    of the best is 0; their sum has the order that `RowKernels` defines.
    """
    kernels = row_kernels()
    with np.errstate(over="ignore"):  # a distance beyond float64 is -inf: it has no probability
        weights = kernels.exp(logits - logits.max())
    weights /= kernels.sum(weights)
    return weights


def log_normalizer(logits: Float32Array | Float64Array) -> float:
    """Log of the sum of exponentials: subtract it from logits to get log-probabilities."""
    return row_kernels().log_normalizer(contiguous(logits))
