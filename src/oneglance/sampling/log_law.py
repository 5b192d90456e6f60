"""The law of one position, in the form that costs least: scores of the tokens that may follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneglance.sampling.row_kernels import row_kernels
from oneglance.types import Float32Array, Float64Array, IntArray


@dataclass(frozen=True)
class LogLaw:
    """Log-probabilities up to a constant, (row − best) / temperature, of some tokens.

    A model's row of logits is such a law as it stands, so that nothing as long as the vocabulary
    needs to be computed before it is asked for. Where the law was truncated only the tokens that
    stayed are here.

    Attributes:
        row: [S], float32 or float64, C-contiguous; no NaN, −inf is a forbidden token.
        best: the largest element of `row`; for noise alone (`KeyedNoise`) any number, as a constant
            changes no sample.
        temperature: positive.
        vocab_size: V.
        ids: [S] the tokens, ascending; None: S = V, each index is its token.
    """

    row: Float32Array | Float64Array
    best: float
    temperature: float
    vocab_size: int
    ids: IntArray | None = None

    def scores(self) -> Float64Array:
        """[S] log-probabilities up to a constant, in float64."""
        with np.errstate(over="ignore"):  # beyond float64 is -inf: it has no probability
            scores: Float64Array = (self.row.astype(np.float64) - self.best) / self.temperature
        return scores

    def logits(self) -> Float64Array:
        """[V] log-probabilities up to a constant, −inf where forbidden; a new array."""
        if self.ids is None:
            return self.scores()
        logits = np.full(self.vocab_size, -np.inf)
        logits[self.ids] = self.scores()
        return logits

    def probs(self) -> Float64Array:
        """[V] the law; a new array."""
        kernels = row_kernels()
        weights = kernels.exp(self.scores())
        if self.ids is not None:
            # Spread out before they are added, so that sums have the order of a full row.
            spread = np.zeros(self.vocab_size)
            spread[self.ids] = weights
            weights = spread
        weights /= kernels.sum(weights)
        return weights

    def token(self, index: int) -> int:
        """The token of an element of `row`."""
        return index if self.ids is None else int(self.ids[index])

    def draw(self, uniform: float) -> int:
        """The token at which the cumulative law first exceeds `uniform`, a number in [0, 1]."""
        return self.token(row_kernels().draw(self.row, self.best, self.temperature, uniform))

    def truncated(self, indices: IntArray) -> LogLaw:
        """The law of some elements alone, given by their indices, ascending."""
        ids = indices if self.ids is None else self.ids[indices]
        kept = LogLaw(self.row[indices], self.best, self.temperature, self.vocab_size, ids)
        return LogLaw(kept.scores(), 0.0, 1.0, self.vocab_size, ids)
