"""Which place of the prediction an answer has reached, through insertions, deletions and changes.

The answer is followed token by token. Where it leaves the prediction, the place is kept as the
anchor, and every further token is a chance to find back: by the n-gram that the answer ends with,
by one token that occurs soon after the anchor, by an edit that was seen before, or, right after
the divergence, on the assumption that as many tokens were changed, or inserted, as have come. Each
such clue is judged by the next token, whether it was followed or not, so that the ones which suit
this answer come first. A place is trusted, and becomes the anchor, once three tokens in a row have
agreed with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oneglance.drafters.predicted_edits import RepeatedEdits
from oneglance.drafters.predicted_evidence import Clue, Evidence
from oneglance.drafters.predicted_index import Match, PredictionIndex

_TRUSTED_LENGTH = 3
_TAIL_LENGTH = 8
_REACH = 8
_LONG_GRAM = 3
_LONGEST_ASSUMED = 2


@dataclass(frozen=True)
class Place:
    """Where the answer may have arrived.

    Attributes:
        at: index in the prediction of the token that would come next.
        clue: what speaks for it.
        pending: tokens that would come before that, the rest of an edit seen before.
    """

    at: int
    clue: Clue
    pending: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A place to go on from, and how many of the last tokens agree with it."""

    place: Place
    num_agreed: int = 0


class Alignment:
    """Follows one answer along its prediction."""

    def __init__(self, index: PredictionIndex) -> None:
        """Starts with the answer at the prediction's beginning."""
        self.edits = RepeatedEdits(index)
        self.evidence = Evidence()
        self._index = index
        self._tail: list[int] = []
        self._anchor = 0
        self._gap: list[int] = []  # what came since the answer left the anchor
        self._at: int | None = 0
        self._num_agreed = _TRUSTED_LENGTH
        self._left_at = 0  # where the answer last agreed with the place that it was followed at
        self._num_missed = 0  # tokens since then
        self._open: dict[Clue, Place] = {}  # where each clue points to; the next token judges
        self._confirmed: list[Place] = []

    def observe(self, token: int) -> None:
        """Takes the answer's next token."""
        self._judge(token)
        self._tail = [*self._tail[1 - _TAIL_LENGTH :], token]
        if self._at is not None and self._index.has_at((token,), self._at):
            self._at += 1
            self._num_agreed += 1
            self._left_at, self._num_missed = self._at, 0
            self._agree(token)
        else:
            self._num_missed += 1
            self._gap.append(token)
            self._relocate()

    def places(self) -> Iterator[Place]:
        """Where the answer may be, the most credible place first; computed as far as asked for."""
        if self._at is not None and not self._gap:
            yield Place(self._at, Clue.READING)
            return
        if self._at is not None and self._num_agreed > 0:
            yield Place(self._at, Clue.AGREED)
        yield from (candidate.place for candidate in self._ranked(self._found()))

    def _judge(self, token: int) -> None:
        """Learns which clues were right; places that a token has confirmed are kept."""
        self._confirmed = []
        for clue, place in self._open.items():
            self.evidence.note(clue, self._expected(place) == token)
            if not place.pending and self._index.has_at((token,), place.at):
                self._confirmed.append(Place(place.at + 1, Clue.AGREED))
        self._open = {}

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
        """Moves to the most credible place, if there is any, and notes what each clue points to."""
        found = self._found()
        self._open = {clue: candidates[0].place for clue, candidates in found.items()}
        self._at, self._num_agreed = None, 0
        best = next(self._ranked(found), None)
        if best is not None:
            self._num_agreed = best.num_agreed
            self._at = None if best.place.pending else best.place.at

    def _ranked(self, found: Mapping[Clue, Sequence[_Candidate]]) -> Iterator[_Candidate]:
        """All candidates, those of the clue that is right most often first."""
        for clue in self.evidence.ranked(*found):
            yield from found[clue]

    def _found(self) -> dict[Clue, list[_Candidate]]:
        """The places that each clue points to; clues that point nowhere are left out."""
        matches = self._index.matches(self._tail, self._anchor)
        grams = [_Candidate(Place(match.end, _gram(match)), match.length) for match in matches]
        confirmed = [_Candidate(place, 1) for place in self._confirmed]
        every = [*confirmed, *self._within_edit(), *grams, *self._by_token(), *self._assumed()]
        found: dict[Clue, list[_Candidate]] = {}
        for candidate in every:
            found.setdefault(candidate.place.clue, []).append(candidate)
        return found

    def _expected(self, place: Place) -> int | None:
        """The token that comes next if the answer has arrived there; None at the end."""
        following = [*place.pending, *self.edits.read(place.at, 1)]
        return following[0] if following else None

    def _within_edit(self) -> Iterator[_Candidate]:
        edit = self.edits.at(self._anchor)
        if edit is not None:
            end, new = edit
            if tuple(self._gap) == new[: len(self._gap)]:
                yield _Candidate(Place(end, Clue.EDIT, new[len(self._gap) :]))

    def _by_token(self) -> Iterator[_Candidate]:
        found = self._index.next_single(self._tail[-1], self._anchor, _REACH)
        if found is not None:
            yield _Candidate(Place(found + 1, Clue.TOKEN), 1)

    def _assumed(self) -> Iterator[_Candidate]:
        if self._num_missed <= _LONGEST_ASSUMED:
            yield _Candidate(Place(self._left_at + self._num_missed, Clue.CHANGED))
            yield _Candidate(Place(self._left_at, Clue.INSERTED))


def _gram(match: Match) -> Clue:
    return Clue.NGRAM if match.length >= _LONG_GRAM else Clue.PAIR
