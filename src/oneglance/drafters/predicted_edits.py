"""Edits that an answer makes again and again, such as the renaming of an identifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneglance.drafters.predicted_index import PredictionIndex

_MOST_EDITS = 32
_LONGEST_OLD = 4
_LONGEST_NEW = 8

Gram = tuple[int, ...]


@dataclass
class _Edit:
    """What took the place of some tokens, and how often those were edited and kept."""

    new: Gram
    num_edited: int
    num_kept: int


class RepeatedEdits:
    """Replacements seen in one answer. Each is expected again while that is more often right."""

    def __init__(self, index: PredictionIndex) -> None:
        """Knows no edits yet."""
        self._index = index
        self._edits: dict[Gram, _Edit] = {}

    def learn(self, start: int, end: int, new: Sequence[int]) -> None:
        """Notes that `new` came in place of the prediction's tokens `start` to `end` − 1.

        Insertions have no place to expect them at, and what is long is seldom repeated.
        """
        old = self._index.tokens[start:end]
        if not 1 <= len(old) <= _LONGEST_OLD or len(new) > _LONGEST_NEW:
            return
        known = self._edits.pop(old, None)
        num_edited = known.num_edited + 1 if known else 1
        num_kept = known.num_kept if known else self._index.count(old, start)
        self._edits[old] = _Edit(tuple(new), num_edited, num_kept)  # the latest is last
        if len(self._edits) > _MOST_EDITS:
            del self._edits[next(iter(self._edits))]

    def keep(self, end: int) -> None:
        """Notes that the answer kept the prediction's token before place `end`."""
        for old, edit in self._edits.items():
            start = end - len(old)
            if start >= 0 and self._index.has_at(old, start):
                edit.num_kept += 1

    def at(self, place: int) -> tuple[int, Gram] | None:
        """The edit to expect at a place: where it ends, and the new tokens; the longest first."""
        for length in range(_LONGEST_OLD, 0, -1):
            edit = self._edits.get(self._index.tokens[place : place + length])
            if edit is not None and edit.num_edited > edit.num_kept:
                return place + length, edit.new
        return None

    def read(self, place: int, count: int) -> list[int]:
        """The next `count` tokens from a place on, edited where that is to be expected."""
        tokens: list[int] = []
        while len(tokens) < count and place < len(self._index):
            edit = self.at(place)
            place, new = edit or (place + 1, (self._index.tokens[place],))
            tokens.extend(new)
        return tokens[:count]
