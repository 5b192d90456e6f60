"""How far a drafter's own estimates can be trusted: what it said against what became of it."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from operator import mul

_DECAY = 0.995
"""Weight of a draft relative to the next one of its class: about two hundred are remembered."""
_PRIOR_WEIGHT = 3.0
"""How many trials the expectation before any trial counts for, in each class."""
_EDGES = (0.2, 0.4, 0.6, 0.8, 0.95)
"""Borders between the classes of what was said of a token."""
_DEPTHS = (1, 2, 4)
"""Depth at which each class of depths begins; tokens far down a path that was right so far are
right more often than the first."""


class Reliability:
    """Probability that a token is kept, from what its drafter said of the whole draft.

    A drafter says how many tokens of a chain it expects to be kept. That is read as a rate, the
    same for every token; for each class of rates, and of depths, it is counted how often tokens
    were kept whose path had been kept down to them. So what is learned does not depend on how much
    of a draft was verified: a token tells only if it was reached.
    """

    def __init__(self, parent: Reliability | None = None) -> None:
        """Starts from what `parent` has learned, and lets it learn too; None: from what is said."""
        self._parent = parent
        # Lists, by level and column: they are read and written in each pass.
        self._trials = [[0.0] * len(_DEPTHS) for _ in range(len(_EDGES) + 1)]
        self._kept = [[0.0] * len(_DEPTHS) for _ in range(len(_EDGES) + 1)]

    def update(self, num_drafted: int, said: float, num_known: int, num_kept: int) -> None:
        """Learns from one draft.

        Args:
            num_drafted: its length.
            said: how many of its tokens were expected to be kept.
            num_known: down to which depth it is known whether it was right.
            num_kept: how many of those were right, from the first on.
        """
        num_tried = min(num_kept + 1, num_known)
        if num_tried > 0:
            self._add(bisect_right(_EDGES, rate_of(said, num_drafted)), num_tried, num_kept)

    def _add(self, level: int, num_tried: int, num_kept: int) -> None:
        for counts in (self._trials[level], self._kept[level]):
            counts[:] = [_DECAY * count for count in counts]
        for depth in range(1, num_tried + 1):
            column = bisect_right(_DEPTHS, depth) - 1
            self._trials[level][column] += 1.0
            self._kept[level][column] += float(depth <= num_kept)
        if self._parent is not None:
            self._parent._add(level, num_tried, num_kept)

    def reaches(self, num_drafted: int, said: float) -> list[float]:
        """[num_drafted] probability that the chain is kept down to each depth."""
        rate = rate_of(said, num_drafted)
        by_class = self._rates(bisect_right(_EDGES, rate), rate)
        columns = (bisect_right(_DEPTHS, depth) - 1 for depth in range(1, num_drafted + 1))
        return list(accumulate((by_class[column] for column in columns), mul))

    def _rates(self, level: int, said: float) -> list[float]:
        """[number of depth classes] for one class of what is said."""
        priors = [said] * len(_DEPTHS)
        if self._parent is not None:
            priors = self._parent._rates(level, said)
        return [
            (kept + _PRIOR_WEIGHT * prior) / (trials + _PRIOR_WEIGHT)
            for kept, trials, prior in zip(
                self._kept[level], self._trials[level], priors, strict=True
            )
        ]


@lru_cache(maxsize=64)
def rate_of(expected: float, num_tokens: int) -> float:
    """The rate of acceptance a with a + a² + … + a^n = expected, by bisection.

    Args:
        expected: tokens that are kept; more than there are counts as all of them.
        num_tokens: n, at least 1.
    """
    if num_tokens == 1:
        return min(max(expected, 0.0), 1.0)
    low, high = 0.0, 1.0
    for _ in range(12):
        rate = (low + high) / 2
        total = num_tokens if rate == 1.0 else rate * (1 - rate**num_tokens) / (1 - rate)
        low, high = (rate, high) if total < expected else (low, rate)
    return (low + high) / 2
