"""Which place of the prediction an answer has reached, through insertions, deletions and changes.

The answer is followed token by token. Where it leaves the prediction, the place is kept as the
anchor, and every further token is a chance to find back: by the n-gram that the answer ends with,
by one token that occurs soon after the anchor, by an edit that was seen before, or, right after
the divergence, on the assumption that one token was changed or inserted. A place is trusted, and
becomes the anchor, once three tokens in a row have agreed with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain

from oneglance.drafters.predicted_edits import RepeatedEdits
from oneglance.drafters.predicted_index import PredictionIndex

_TRUSTED_LENGTH = 3
_TAIL_LENGTH = 8
_REACH = 8
_LONGEST_ASSUMED = 2


class Trust(IntEnum):
    """How well a place is supported."""

    ASSUMED = 0
    """By nothing but that edits are short."""
    PLAUSIBLE = 1
    """By one or two tokens, or an edit that was seen before."""
    TRUSTED = 2
    """By three tokens or more, or as the beginning."""


@dataclass(frozen=True)
class Place:
    """Where the answer may have arrived.

    Attributes:
        at: index in the prediction of the token that would come next.
        trust: how well it is supported.
        pending: tokens that would come before that, the rest of an edit seen before.
    """

    at: int
    trust: Trust
    pending: tuple[int, ...] = ()


class Alignment:
    """Follows one answer along its prediction."""

    def __init__(self, index: PredictionIndex) -> None:
        """Starts with the answer at the prediction's beginning."""
        self.edits = RepeatedEdits(index)
        self._index = index
        self._tail: list[int] = []
        self._anchor = 0
        self._gap: list[int] = []  # what came since the answer left the anchor
        self._at: int | None = 0
        self._num_agreed = _TRUSTED_LENGTH

    def observe(self, token: int) -> None:
        """Takes the answer's next token."""
        self._tail = [*self._tail[1 - _TAIL_LENGTH :], token]
        if self._at is not None and self._index.has_at((token,), self._at):
            self._at += 1
            self._num_agreed += 1
            self._agree(token)
        else:
            self._gap.append(token)
            self._relocate()

    def places(self) -> Iterator[Place]:
        """Where the answer may be, the most credible place first; computed as far as asked for."""
        if self._at is not None and not self._gap:
            yield Place(self._at, Trust.TRUSTED)
            return
        if self._at is not None and self._num_agreed > 0:
            yield Place(self._at, Trust.PLAUSIBLE)
        yield from (place for place, _ in self._candidates())

    def _agree(self, token: int) -> None:
        """Goes on from where the prediction was right; ends the gap once that is trusted."""
        assert self._at is not None, "an answer agrees at a place"
        if not self._gap:
            self._anchor = self._at
            self.edits.keep(self._at)
            return
        self._gap.append(token)
        if self._num_agreed >= _TRUSTED_LENGTH:
            num_agreed = min(self._num_agreed, len(self._gap))
            new = self._gap[: len(self._gap) - num_agreed]
            self.edits.learn(self._anchor, self._at - num_agreed, new)
            self._anchor, self._gap = self._at, []

    def _relocate(self) -> None:
        """Moves to the most credible place, if there is any."""
        best = next(self._candidates(), None)
        self._at, self._num_agreed = None, 0
        if best is not None:
            place, self._num_agreed = best
            self._at = None if place.pending else place.at

    def _candidates(self) -> Iterator[tuple[Place, int]]:
        """Places to go on from, and how many of the last tokens agree with each."""
        return chain(self._within_edit(), self._by_ngram(), self._by_token(), self._assumed())

    def _within_edit(self) -> Iterator[tuple[Place, int]]:
        edit = self.edits.at(self._anchor)
        if edit is not None:
            end, new = edit
            if tuple(self._gap) == new[: len(self._gap)]:
                yield Place(end, Trust.PLAUSIBLE, new[len(self._gap) :]), 0

    def _by_ngram(self) -> Iterator[tuple[Place, int]]:
        for match in self._index.matches(self._tail, self._anchor):
            yield Place(match.end, Trust.PLAUSIBLE), match.length

    def _by_token(self) -> Iterator[tuple[Place, int]]:
        found = self._index.next_single(self._tail[-1], self._anchor, _REACH)
        if found is not None:
            yield Place(found + 1, Trust.PLAUSIBLE), 1

    def _assumed(self) -> Iterator[tuple[Place, int]]:
        if len(self._gap) <= _LONGEST_ASSUMED:
            yield Place(self._anchor + len(self._gap), Trust.ASSUMED), 0
            yield Place(self._anchor, Trust.ASSUMED), 0
