"""What a draft costs: a price of the call, one of each token, and one of catching up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oneglance.types import Float64Array

_MEMORY = 48
"""How many calls are remembered."""
_DECAY = 0.97
"""Weight of a call relative to the one after it."""
_PRIOR_WEIGHT = 0.3
"""How many calls the prices before any call count for."""
_NEAR = 0.15
"""A call that deviates by less than this share has full weight, others less in proportion: the
sum of absolute deviations is made small, so that calls which were interrupted count for little."""
_ROUNDS = 6


@dataclass(frozen=True)
class DraftPrice:
    """Prices of drafting.

    Attributes:
        call: of being asked at all.
        token: of each token on a path, of all sequences together.
        unseen: of each decided token that the drafter has not seen yet: of catching up.
    """

    call: float = 0.0
    token: float = 0.0
    unseen: float = 0.0

    def of(self, num_tokens: float, num_unseen: float = 0.0) -> float:
        """Price of a call in which paths of so many tokens are drafted."""
        return self.call + self.token * num_tokens + self.unseen * num_unseen

    def times(self, factor: float) -> DraftPrice:
        """The same prices in another unit."""
        return DraftPrice(factor * self.call, factor * self.token, factor * self.unseen)


FREE = DraftPrice()


class DraftCosts:
    """Seconds of drafting, fitted to the latest calls.

    A model that drafts reads its own weights once for each token of depth, and the tokens that
    were decided without it, at first the whole prompt, before the first of them. A moving average
    of seconds per token would take that reading for a price of tokens.
    """

    def __init__(
        self,
        prior: DraftPrice = FREE,
        unit: Callable[[], float] = lambda: 1.0,
        fit_after: float = 0.5,
    ) -> None:
        """Starts from prices that are guessed.

        Args:
            prior: what is expected before any call; free unless told.
            unit: seconds of the unit that `prior` is in, such as a pass of the target.
            fit_after: new calls after which prices are fitted anew, in those that are remembered.
        """
        self._fit_after = fit_after
        self._prior = prior
        self._unit = unit
        self._calls: deque[tuple[float, float, float]] = deque(maxlen=_MEMORY)
        self._num_new = 0
        self._fitted: DraftPrice | None = None

    @property
    def runs_model(self) -> bool:
        """Whether a model was expected to run for each token."""
        return self._prior != FREE

    @property
    def price(self) -> DraftPrice:
        """The prices in seconds."""
        if self._fitted is None:
            return self._prior.times(self._unit())
        # Early calls change much, later ones little: few of those are worth another fit.
        if self._num_new > self._fit_after * len(self._calls):
            self._fit()
        return self._fitted

    def note(self, num_tokens: int, seconds: float, num_unseen: int = 0) -> None:
        """Learns from one call.

        Args:
            num_tokens: lengths of the drafted paths, of all sequences together.
            seconds: how long the call took.
            num_unseen: decided tokens that the drafter had not seen, of all sequences together.
        """
        self._calls.append((float(num_tokens), float(num_unseen), max(seconds, 1e-9)))
        self._num_new += 1
        if self._fitted is None:
            self._fit()

    def _fit(self) -> None:
        prior = self._prior.times(self._unit())
        self._fitted = fit_price(np.array(self._calls), prior)
        self._num_new = 0


class KnownDraftCosts(DraftCosts):
    """Prices that are given, not learned."""

    def note(self, num_tokens: int, seconds: float, num_unseen: int = 0) -> None:
        """Learns nothing."""


def fit_price(calls: Float64Array, prior: DraftPrice) -> DraftPrice:
    """Prices that explain some calls, none of them negative.

    Least absolute relative deviations by weighted least squares (iterated), with a weak pull
    towards `prior`, which decides between prices that the calls cannot tell apart.

    Args:
        calls: [n, 3] tokens, unseen tokens and seconds of each, the latest last; n at least 1.
        prior: prices in seconds.
    """
    seconds = calls[:, 2]
    features = np.column_stack([np.ones(len(calls)), calls[:, :2]]) / seconds[:, None]
    ages: Float64Array = _DECAY ** np.arange(len(calls) - 1, -1, -1, dtype=np.float64)
    guess = np.array([prior.call, prior.token, prior.unseen])
    pull = _PRIOR_WEIGHT * (features.mean(axis=0) ** 2 + 1e-12)
    prices, weights = guess, ages
    for _ in range(_ROUNDS):
        prices = _least_squares(features, weights, guess, pull)
        deviations = np.abs(features @ prices - 1.0)
        weights = ages * _NEAR / np.maximum(deviations, _NEAR)
    return DraftPrice(*prices.tolist())


def _least_squares(
    features: Float64Array, weights: Float64Array, guess: Float64Array, pull: Float64Array
) -> Float64Array:
    """Minimises over x ≥ 0: Σ w (f·x − 1)² + Σ pull (x − guess)².

    A price that would be negative is none, and the others are found without it.
    """
    matrix = (features * weights[:, None]).T @ features + np.diag(pull)
    target = features.T @ weights + pull * guess
    free = np.ones(len(guess), dtype=np.bool_)
    while True:
        prices = np.zeros(len(guess))
        prices[free] = np.linalg.solve(matrix[np.ix_(free, free)], target[free])
        if bool(np.all(prices >= 0.0)):
            return prices
        free[int(np.argmin(prices))] = False
