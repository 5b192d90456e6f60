"""Words of the counter-based generator, the Gumbel noise that is made of them, and its argmax.

The numpy form of `csrc/kernels/gumbel.h`; `noise.SeededNoise` defines both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oneglance.sampling import elementary
from oneglance.sampling.selection import largest, ranked
from oneglance.types import Float64Array, IntArray

Words = NDArray[np.uint64]

_HEAD = 64
"""How many of the most probable tokens are looked at before the others are ruled out."""


def words_below(size: int, seed: int, choice: int, position: int) -> Words:
    """The words [size] of token ids 0 to size - 1 at a generated position."""
    # NumPy steps the 256-bit counter before each block: hence the 1 in the definition.
    stream = np.random.Philox(key=seed | choice << 64, counter=position << 64)
    words: Words = stream.random_raw(size)
    return words


def gumbel_of(words: Words) -> Float64Array:
    """The noise g of each word."""
    uniforms = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return -elementary.log(-elementary.log(uniforms))


def best_with_noise(scores: Float64Array, words: Words, count: int) -> IntArray:
    """Indices of the `count` best of score + noise, best first; score −inf is left out.

    Args:
        scores: [S] float64.
        words: [S] of the same tokens.
        count: how many, at least 1.
    """
    ids = _candidates(scores, words, count)
    return ids[ranked(scores[ids] + gumbel_of(words[ids]), count)]


def _candidates(scores: Float64Array, words: Words, count: int) -> IntArray:
    """Allowed indices, ascending, that certainly contain the `count` best of score + noise.

    Two logarithms for each of 150 000 tokens would take longer than the rest of the accept rule.
    A token outside the head needs noise of at least (sum of the count-th best in the head) −
    (lowest score in the head), and that is a comparison of the raw words.
    """
    allowed = np.flatnonzero(scores > -math.inf)
    if len(allowed) <= _HEAD + count:
        return allowed
    head = largest(scores, _HEAD + count)
    totals = scores[head] + gumbel_of(words[head])
    total_floor = float(np.partition(totals, -count)[-count])
    score_ceiling = float(scores[head].min())
    slack = 1e-9 * (1 + abs(total_floor) + abs(score_ceiling))  # far above the rounding of a sum
    needed = max(total_floor - score_ceiling - slack, -6.0)  # noise is never below -4
    word_floor = int(math.exp(-math.exp(-needed)) * (1 - 1e-12) * 2.0**52) << 12
    lucky = np.flatnonzero(words >= np.uint64(word_floor))
    return np.union1d(head, lucky[scores[lucky] > -math.inf])
