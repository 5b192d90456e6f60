"""How likely draft tokens are kept, by depth, from what became of those before."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

_DECAY = 0.95
"""Weight of a pass relative to the one after it: about twenty of a request are remembered."""
_SHARED_DECAY = 0.99
"""The same of what all requests share, which changes more slowly."""
_PRIOR_WEIGHT = 2.0
"""How many trials the expectation before any trial counts for, over all depths."""
_SHARED_WEIGHT = 8.0
"""How many trials the expectation from other requests counts for at most."""
_DEPTH_WEIGHT = 4.0
"""How many trials the average of all depths counts for at each depth."""
_MOST_WEIGHT = 1e9
"""Of the latest trial; floats hold far more without losing a count that matters."""
FIRST_GUESS = 0.5
"""Acceptance expected of a drafter that nothing is known of."""


class Acceptance:
    """Probability that a draft token is kept, given that those before it on its path were.

    Counts of trials and successes by depth, decaying from pass to pass. Depths that were seldom
    reached lean on the average of all, and that on what the drafter achieved in other requests.
    """

    def __init__(self, parent: Acceptance | None = None, guess: float = FIRST_GUESS) -> None:
        """Starts from what `parent` has learned, and lets it learn too; None: from `guess`."""
        self._parent = parent
        self._guess = guess
        self._decay = _SHARED_DECAY if parent is None else _DECAY
        # Counts of all times are kept in the weight of the latest trial, which grows: so a pass
        # touches those that it adds to, and no others.
        self._weight = 1.0
        self._trials: list[float] = []
        self._kept: list[float] = []
        self._num_trials = 0.0
        self._num_kept = 0.0

    def update(self, num_drafted: int, num_accepted: int) -> None:
        """Learns from one draft.

        Args:
            num_drafted: length of the longest path of which it is known whether it was right; 0:
                nothing is learned.
            num_accepted: how many tokens of a path were kept.
        """
        if num_drafted == 0:
            return
        num_tried = min(num_accepted + 1, num_drafted)
        missing = [0.0] * (num_tried - len(self._trials))
        self._trials += missing
        self._kept += missing
        self._weight /= self._decay
        weight = self._weight
        for index in range(num_tried):
            self._trials[index] += weight
        for index in range(num_accepted):
            self._kept[index] += weight
        self._num_trials += weight * num_tried
        self._num_kept += weight * num_accepted
        if weight > _MOST_WEIGHT:
            self._rescale()
        if self._parent is not None:
            self._parent.update(num_drafted, num_accepted)

    def _rescale(self) -> None:
        """Gives the latest trial the weight 1 again."""
        for counts in (self._trials, self._kept):
            counts[:] = [count / self._weight for count in counts]
        self._num_trials /= self._weight
        self._num_kept /= self._weight
        self._weight = 1.0

    @property
    def rate(self) -> float:
        """Average over all depths."""
        prior, weight = self._guess, _PRIOR_WEIGHT
        parent = self._parent
        if parent is not None:
            prior = parent.rate
            weight = min(_PRIOR_WEIGHT + parent._num_trials / (4 * parent._weight), _SHARED_WEIGHT)
        weight *= self._weight
        return (self._num_kept + weight * prior) / (self._num_trials + weight)

    def rates(self, num_tokens: int) -> list[float]:
        """[num_tokens] for each depth from 1 on."""
        rate, weight = self.rate, _DEPTH_WEIGHT * self._weight
        known = [
            (self._kept[depth] + weight * rate) / (self._trials[depth] + weight)
            for depth in range(min(num_tokens, len(self._trials)))
        ]
        rest = [rate] * (num_tokens - len(known))
        return known + rest

    def reaches(self, num_tokens: int) -> list[float]:
        """[num_tokens] probability that a path is kept down to each depth.

        Their sum is the number of tokens that are expected to be kept (Leviathan et al.,
        arXiv:2211.17192, equation 1, with a rate for each depth).
        """
        return list(accumulate(self.rates(num_tokens), mul))
