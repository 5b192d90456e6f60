"""How far Medusa's heads can be trusted, learned from what became of their guesses.

A head says how sure it is of each token. Whether it deserves that is another matter: heads that
look further ahead are often too sure of themselves, and a greedy target is easier to guess than
the text that they were trained on. So the guesses of each depth and rank are weighed by what they
came to: accepted ÷ what the head had said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.types import Float64Array

MAX_RANKS = 10
"""Ranks that are told apart, as many as the published trees have; the others count as the last."""

PRIOR_WEIGHT = 4.0
"""How many right guesses the belief that a head is right about itself is worth."""

FIRST_RATE, RATE_DECAY = 0.6, 0.8
"""How often the best guess of the first head is expected to be right before anything is known, and
what is left of that at each depth further on: about what published heads reach."""


@dataclass
class Calibration:
    """Outcomes of guesses, by depth (from 0) and rank among the guesses for one place.

    Attributes:
        hits: [H, MAX_RANKS] guesses that were right.
        said: [H, MAX_RANKS] the confidences of all guesses, added up.
        counts: [H] places that were guessed.
    """

    hits: Float64Array
    said: Float64Array
    counts: Float64Array = field(repr=False)

    @classmethod
    def fresh(cls, num_heads: int) -> Calibration:
        """Of heads of which nothing is known."""
        shape = (num_heads, MAX_RANKS)
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(num_heads))

    def copy(self) -> Calibration:
        """One that learns on by itself."""
        return Calibration(self.hits.copy(), self.said.copy(), self.counts.copy())

    def counted_as(self, num_places: float) -> Calibration:
        """The same outcomes, but of so many places at each depth at most."""
        factors = np.minimum(1.0, num_places / np.maximum(self.counts, 1.0))
        spread = factors[:, None]
        return Calibration(self.hits * spread, self.said * spread, self.counts * factors)

    def note(self, depth: int, confidences: Sequence[float], right: int | None) -> None:
        """Hears what became of the guesses for one place.

        Args:
            depth: of the place, from 0.
            confidences: what the head had said of each guess, best first.
            right: rank of the right one; None: it was not among them.
        """
        for rank, confidence in enumerate(confidences):
            self.said[depth, min(rank, MAX_RANKS - 1)] += confidence
        if right is not None:
            self.hits[depth, min(right, MAX_RANKS - 1)] += 1.0
        self.counts[depth] += 1.0

    def chance(self, depth: int, rank: int, confidence: float) -> float:
        """How likely a guess is right, if all before it were."""
        place = depth, min(rank, MAX_RANKS - 1)
        deserved = (self.hits[place] + PRIOR_WEIGHT) / (self.said[place] + PRIOR_WEIGHT)
        return min(1.0, confidence * float(deserved))

    def rate(self, depth: int) -> float:
        """How often the best guess at a depth is right, if all before it were."""
        expected = PRIOR_WEIGHT * FIRST_RATE * RATE_DECAY**depth
        rate = (self.hits[depth, 0] + expected) / (self.counts[depth] + PRIOR_WEIGHT)
        return float(rate)
