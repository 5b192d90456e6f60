"""Randomness: drawn in order for requests without a seed, keyed by position for those with one.

Why keyed by position: contract C3 promises the same tokens for the same seed with any drafter,
any draft length, alone or in a batch. Numbers that are drawn one after another cannot keep it,
because how many are used before a token depends on what was drafted and rejected. Here the noise
of the t-th generated token is a pure function of (seed, choice, t, token id). The target's token
at t is the argmax of its warped logits plus that noise, which is an exact sample (Gumbel-max),
and plain decoding computes the very same argmax. So the answer is a function of weights, prompt,
parameters and seed; a draft can only agree with it or not. Sampled drafters use the same noise,
so that they agree often (Daliri, Musco, Suresh, arXiv:2408.07978).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from oneglance.config import SamplingParams
from oneglance.sampling.log_law import LogLaw
from oneglance.sampling.row_kernels import contiguous, row_kernels
from oneglance.types import Float64Array


class Noise(ABC):
    """Random choices drawn one after another. Abstract, so that a test can enumerate them."""

    @abstractmethod
    def coin(self, probability: float) -> bool:
        """True with the given probability: never at 0, always at 1."""

    @abstractmethod
    def draw(self, probs: Float64Array) -> int:
        """Draws an index from a law [V]; never one of probability 0."""

    def draw_from(self, law: LogLaw) -> int:
        """Draws a token from a law given by its scores."""
        return self.draw(law.probs())


class KeyedNoise(ABC):
    """Noise that is a function of the position (contract C3), whoever asks and however often."""

    @abstractmethod
    def sample(self, logits: Float64Array, position: int) -> int:
        """Gumbel-max sample of a generated position: argmax of logits + noise.

        Args:
            logits: [V] log-probabilities up to a constant; −inf is never chosen.
            position: index of the token among the generated ones.
        """

    @abstractmethod
    def sample_distinct(self, logits: Float64Array, position: int, count: int) -> list[int]:
        """The `count` best of logits + noise, best first: a sample without replacement.

        The first is `sample(logits, position)`. A drafter takes them as siblings, in this order
        (Kool et al., arXiv:1903.06059). Shorter where fewer tokens have a finite logit.

        Args:
            logits: [V] log-probabilities up to a constant; −inf is never chosen.
            position: index of the token among the generated ones.
            count: how many, at least 1.
        """

    def sample_from(self, law: LogLaw, position: int) -> int:
        """`sample` of a law given by its scores: the same token."""
        return self.sample_distinct_from(law, position, 1)[0]

    def sample_distinct_from(self, law: LogLaw, position: int, count: int) -> list[int]:
        """`sample_distinct` of a law given by its scores: the same tokens."""
        return self.sample_distinct(law.logits(), position, count)


class SequentialNoise(Noise):
    """Fresh random numbers, one after another, in float64.

    A coin lands True where a uniform u in [0, 1) is strictly below its probability, so 0 never
    does and 1 always does. A draw inverts the cumulative law.
    """

    def __init__(self, seed: int | None = None) -> None:
        """Starts a stream: from the system's entropy, or from a seed so that a test can repeat."""
        self._generator = np.random.Generator(np.random.Philox(seed))

    def coin(self, probability: float) -> bool:
        """True with the given probability: never at 0, always at 1."""
        assert probability >= 0, "a probability is negative or NaN"
        return self._generator.random() < probability

    def draw(self, probs: Float64Array) -> int:
        """Draws an index from a law [V]; never one of probability 0."""
        return inverse_cdf(probs, self._generator.random())

    def draw_from(self, law: LogLaw) -> int:
        """Draws a token from a law given by its scores, without computing its probabilities."""
        return law.draw(self._generator.random())


@dataclass(frozen=True)
class SeededNoise(KeyedNoise):
    """Gumbel noise from Philox4x64-10 (Salmon et al., SC 2011), a counter-based generator.

    The noise of token id x at position t is defined bit by bit, so that any kernel can compute
    any part of it:

    - key: 64-bit words (`seed`, `choice`);
    - counter: 64-bit words (1 + x div 4, t, 0, 0), the lowest word first;
    - w: the (x mod 4)-th of the four 64-bit words that this block yields;
    - u = ((w >> 12) + 0.5) * 2^-52, exact in float64, in [2^-53, 1 - 2^-53]: never 0 or 1;
    - g = -log(-log(u)) in float64, with the logarithm of `elementary.py`.

    Nothing depends on the vocabulary size: `gumbel(t, n)[:m] == gumbel(t, m)`.

    Attributes:
        seed: the request's seed, below 2^64.
        choice: which of several answers to the same seed, below 2^32.
    """

    seed: int
    choice: int = 0

    def gumbel(self, position: int, size: int) -> Float64Array:
        """The noise g [size] of token ids 0 to size - 1 at a generated position."""
        ids = np.arange(size, dtype=np.int64)
        return row_kernels().gumbel(ids, self.seed, self.choice, position)

    def sample(self, logits: Float64Array, position: int) -> int:
        """Argmax of logits + noise; ties go to the lowest id, −inf is never chosen."""
        return self.sample_distinct(logits, position, 1)[0]

    def sample_distinct(self, logits: Float64Array, position: int, count: int) -> list[int]:
        """The `count` best of logits + noise, best first; ties go to the lowest id."""
        # The logits as they are: less 0, divided by 1.
        law = LogLaw(contiguous(logits), 0.0, 1.0, len(logits))
        return self.sample_distinct_from(law, position, count)

    def sample_distinct_from(self, law: LogLaw, position: int, count: int) -> list[int]:
        """`sample_distinct` of a law given by its scores, looking only at tokens that may win."""
        indices = row_kernels().best_with_noise(
            law.row, law.best, law.temperature, law.ids, self.seed, self.choice, position, count
        )
        assert len(indices) > 0, "every token is forbidden"
        return [law.token(index) for index in indices.tolist()]


def noise_for(params: SamplingParams) -> Noise | KeyedNoise:
    """The randomness of a request: keyed if it has a seed, fresh otherwise."""
    if params.seed is None:
        return SequentialNoise()
    return SeededNoise(params.seed, params.choice)


def inverse_cdf(probs: Float64Array, uniform: float) -> int:
    """The index at which the cumulative law first exceeds `uniform`, a number in [0, 1].

    Never an index of probability 0, not even where rounding makes the sum fall short of 1.

    Args:
        probs: [V] non-negative, of which at least one is positive.
        uniform: share of the total mass.
    """
    cumulative = np.cumsum(probs, dtype=np.float64)
    total = cumulative[-1]
    assert 0 < total < math.inf, "a law to draw from has no mass, or NaN"
    index = int(np.searchsorted(cumulative, uniform * total, side="right"))
    if index == len(cumulative):  # uniform * total was rounded up to the total
        return int(np.flatnonzero(probs)[-1])
    return index
