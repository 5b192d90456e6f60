"""How far a drafter's own estimates can be trusted: what it said against what became of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from operator import mul

from oneglance.types import ROOT, Proposal

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
    """Probability that a token is kept, from what its drafter said of it.

    A drafter says of each token how likely it is (`Proposal.reaches`), which is read as a rate,
    that of the token where its parent was kept; or it says how many tokens it expects to be kept,
    which is read as a rate that is the same all along a path. For each class of rates, and of
    depths, it is counted how often tokens were kept whose path had been kept down to them. So what
    is learned does not depend on how much of a draft was verified: a token tells only if it was
    reached.
    """

    def __init__(self, parent: Reliability | None = None) -> None:
        """Starts from what `parent` has learned, and lets it learn too; None: from what is said."""
        self._parent = parent
        # Lists, by level and column: they are read and written in each pass.
        self._trials = [[0.0] * len(_DEPTHS) for _ in range(len(_EDGES) + 1)]
        self._kept = [[0.0] * len(_DEPTHS) for _ in range(len(_EDGES) + 1)]

    def update(self, draft: Proposal, decided: Sequence[int], num_kept: int) -> None:
        """Learns from one draft.

        Args:
            draft: what was drafted, with `expected`.
            decided: tokens of which it is known that they came, from where the draft begins.
            num_kept: how many of them, from the first on, are a path of the draft.
        """
        if draft.reaches is None:
            level = _level(_said_rate(draft))
            num_tried = min(num_kept + 1, len(decided), draft.max_depth)
            columns = enumerate(_columns(num_tried))
            tried = [(level, column, index < num_kept) for index, column in columns]
        else:
            tried = _tried(draft, draft.reaches, decided)
        if tried:
            self._add(tried)

    def _add(self, tried: Sequence[tuple[int, int, bool]]) -> None:
        for level in {level for level, _, _ in tried}:
            for counts in (self._trials[level], self._kept[level]):
                counts[:] = [_DECAY * count for count in counts]
        for level, column, is_kept in tried:
            self._trials[level][column] += 1.0
            self._kept[level][column] += float(is_kept)
        if self._parent is not None:
            self._parent._add(tried)

    def reaches(self, draft: Proposal) -> list[float]:
        """Probability that tokens of a draft, which has `expected`, are kept with all before them.

        Returns:
            [N] of each token; where nothing is said of single ones, of each depth of its longest
            path.
        """
        if draft.reaches is None:
            said, columns = _said_rate(draft), _columns(draft.max_depth)
            by_column = [self._rate(said, column) for column in range(columns[-1] + 1)]
            return list(accumulate([by_column[column] for column in columns], mul))
        reaches: list[float] = []
        columns = _columns(draft.max_depth)
        rates = zip(said_rates(draft, draft.reaches), draft.depths().tolist(), strict=True)
        for (said, depth), parent in zip(rates, draft.parents.tolist(), strict=True):
            above = 1.0 if parent == ROOT else reaches[parent]
            reaches.append(above * self._rate(said, columns[depth - 1]))
        return reaches

    def _rate(self, said: float, column: int) -> float:
        """The rate of a class of depths, from what is said of a token."""
        return self._corrected(_level(said), column, said)

    def _corrected(self, level: int, column: int, said: float) -> float:
        prior = said if self._parent is None else self._parent._corrected(level, column, said)
        trials, kept = self._trials[level][column], self._kept[level][column]
        return (kept + _PRIOR_WEIGHT * prior) / (trials + _PRIOR_WEIGHT)


def said_rates(draft: Proposal, reaches: Sequence[float]) -> list[float]:
    """[N] how likely each token is by its drafter's word, where its parent is kept."""
    above = [1.0 if parent == ROOT else reaches[parent] for parent in draft.parents.tolist()]
    return [each / whole if whole else 0.0 for each, whole in zip(reaches, above, strict=True)]


def _said_rate(draft: Proposal) -> float:
    """The same of a drafter that does not tell tokens apart."""
    assert draft.expected is not None, "the drafter says nothing"
    return rate_of(draft.expected, draft.max_depth)


def _level(said: float) -> int:
    """The class of a rate."""
    return bisect_right(_EDGES, said)


@cache
def _columns(num_tokens: int) -> list[int]:
    """[num_tokens] the class of each depth."""
    return [bisect_right(_DEPTHS, depth) - 1 for depth in range(1, num_tokens + 1)]


def _tried(
    draft: Proposal, reaches: Sequence[float], decided: Sequence[int]
) -> list[tuple[int, int, bool]]:
    """The classes of each token that was reached, and whether it came."""
    rates, columns = said_rates(draft, reaches), _columns(draft.max_depth)
    tried: list[tuple[int, int, bool]] = []
    node = ROOT
    for column, token in zip(columns, decided, strict=False):
        family = draft.children(node)
        right = [child for child in family if draft.tokens[child] == token]
        tried += [(_level(rates[child]), column, child in right) for child in family]
        if not right:
            break
        node = right[0]
    return tried


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
