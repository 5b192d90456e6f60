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
        if draft.is_chain or draft.reaches is None:
            num_tried = min(num_kept + 1, len(decided), draft.max_depth)
            rates = said_rates(draft)[:num_tried]
            tried = [(rate, depth, depth <= num_kept) for depth, rate in enumerate(rates, 1)]
        else:
            tried = _tried(draft, decided)
        if tried:
            self._add([(bisect_right(_EDGES, rate), depth, kept) for rate, depth, kept in tried])

    def _add(self, tried: Sequence[tuple[int, int, bool]]) -> None:
        for level in {level for level, _, _ in tried}:
            for counts in (self._trials[level], self._kept[level]):
                counts[:] = [_DECAY * count for count in counts]
        for level, depth, is_kept in tried:
            column = bisect_right(_DEPTHS, depth) - 1
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
        rates = said_rates(draft)
        if draft.is_chain or draft.reaches is None:
            pairs = list(zip(rates, _columns(len(rates)), strict=True))
            known = {pair: self._rate(*pair) for pair in set(pairs)}
            return list(accumulate((known[pair] for pair in pairs), mul))
        reaches: list[float] = []
        each = zip(rates, draft.depths().tolist(), draft.parents.tolist(), strict=True)
        for said, depth, parent in each:
            above = 1.0 if parent == ROOT else reaches[parent]
            reaches.append(above * self._rate(said, bisect_right(_DEPTHS, depth) - 1))
        return reaches

    def _rate(self, said: float, column: int) -> float:
        """The rate of a class of depths, from what is said of a token."""
        return self._corrected(bisect_right(_EDGES, said), column, said)

    def _corrected(self, level: int, column: int, said: float) -> float:
        prior = said if self._parent is None else self._parent._corrected(level, column, said)
        trials, kept = self._trials[level][column], self._kept[level][column]
        return (kept + _PRIOR_WEIGHT * prior) / (trials + _PRIOR_WEIGHT)


def said_rates(draft: Proposal) -> list[float]:
    """How likely tokens are by their drafter's word, where their parents are kept.

    Returns:
        [N] of each token; where nothing is said of single ones, of each depth of its longest path.
    """
    reaches = draft.reaches
    if reaches is None:
        assert draft.expected is not None, "the drafter says nothing"
        return [rate_of(draft.expected, draft.max_depth)] * draft.max_depth
    above = [1.0 if parent == ROOT else reaches[parent] for parent in draft.parents.tolist()]
    return [each / whole if whole else 0.0 for each, whole in zip(reaches, above, strict=True)]


@cache
def _columns(num_tokens: int) -> list[int]:
    """[num_tokens] the class of each depth."""
    return [bisect_right(_DEPTHS, depth) - 1 for depth in range(1, num_tokens + 1)]


def _tried(draft: Proposal, decided: Sequence[int]) -> list[tuple[float, int, bool]]:
    """Of each token of a tree that was reached what was said of it, its depth, and if it came."""
    rates = said_rates(draft)
    tried: list[tuple[float, int, bool]] = []
    node = ROOT
    for depth, token in enumerate(decided, 1):
        family = draft.children(node)
        right = [child for child in family if draft.tokens[child] == token]
        tried += [(rates[child], depth, child in right) for child in family]
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
