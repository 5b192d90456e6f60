"""Where the last tokens of an answer occur in its prediction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST = 8
_FORWARD_BONUS = 2


@dataclass(frozen=True)
class Match:
    """An n-gram of the prediction that the answer ends with.

    Attributes:
        end: index in the prediction of the token that follows it.
        length: n.
    """

    end: int
    length: int


class PredictionIndex:
    """The tokens of a prediction, and where each token and each pair of tokens occurs in it."""

    def __init__(self, tokens: Sequence[int]) -> None:
        """Indexes the tokens once; requests with the same prediction can share the index."""
        self.tokens = tuple(tokens)
        self._singles: dict[int, list[int]] = {}
        self._pairs: dict[tuple[int, int], list[int]] = {}
        for place, token in enumerate(self.tokens):
            self._singles.setdefault(token, []).append(place)
            if place > 0:
                self._pairs.setdefault((self.tokens[place - 1], token), []).append(place)

    def __len__(self) -> int:
        return len(self.tokens)

    def matches(self, tail: Sequence[int], anchor: int) -> list[Match]:
        """All n-grams of at least two tokens that `tail` ends with, the most credible first.

        The longest is first, and one that ends beyond `anchor` counts as two tokens longer, since
        answers seldom go back. Of equals the nearest to the anchor is first.
        """
        if len(tail) < 2:
            return []
        places = self._pairs.get((tail[-2], tail[-1]), ())
        found = [Match(place + 1, self._length(tail, place)) for place in places]
        return sorted(found, key=lambda match: _rank(match, anchor))

    def next_single(self, token: int, anchor: int, reach: int) -> int | None:
        """Where a token occurs first among the `reach` places from `anchor` on; None: nowhere."""
        places = self._singles.get(token, [])
        index = bisect_right(places, anchor - 1)
        return places[index] if index < len(places) and places[index] < anchor + reach else None

    def count(self, gram: Sequence[int], end: int) -> int:
        """How often a gram begins before place `end`."""
        places = self._singles.get(gram[0], [])
        before = places[: bisect_right(places, end - 1)]
        return sum(self.has_at(gram, place) for place in before)

    def has_at(self, gram: Sequence[int], place: int) -> bool:
        """Whether the prediction goes on with `gram` from `place` on."""
        return self.tokens[place : place + len(gram)] == tuple(gram)

    def _length(self, tail: Sequence[int], place: int) -> int:
        """How many tokens up to `place` agree with the end of `tail`, two being known to."""
        length = 2
        limit = min(_LONGEST, len(tail), place + 1)
        while length < limit and self.tokens[place - length] == tail[-1 - length]:
            length += 1
        return length


def _rank(match: Match, anchor: int) -> tuple[int, int]:
    bonus = _FORWARD_BONUS if match.end > anchor else 0
    return -(match.length + bonus), abs(match.end - anchor)
