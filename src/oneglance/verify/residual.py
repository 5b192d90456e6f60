"""What remains of a law once part of it was offered and refused."""

from __future__ import annotations

import numpy as np

from oneglance.types import Float64Array


def acceptance_ratio(target_prob: float, draft_prob: float) -> float:
    """min(1, target / draft), without overflow; `draft_prob` is positive."""
    assert draft_prob > 0, "a draft token has probability 0 in the law it is said to come from"
    return 1.0 if target_prob >= draft_prob else target_prob / draft_prob


def excess(target_probs: Float64Array, draft_probs: Float64Array) -> Float64Array:
    """[V] (target − draft)+, not normalised; the target may carry a weight below 1."""
    difference: Float64Array = np.maximum(target_probs - draft_probs, 0.0)
    return difference


def normalized(weights: Float64Array, fallback: Float64Array) -> Float64Array:
    """[V] the weights divided by their sum; `fallback` where they are all 0.

    A residual is all 0 where target and draft agree; then the draft is kept with certainty, and
    only rounding can lead here.
    """
    mass = weights.sum()
    return weights / mass if mass > 0 else fallback


def without(probs: Float64Array, token: int) -> Float64Array:
    """[V] the law once `token` is ruled out, renormalised; all 0 if nothing else has mass."""
    others = probs.copy()
    others[token] = 0.0
    return normalized(others, fallback=others)
