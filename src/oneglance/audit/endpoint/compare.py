"""Two answers that should be equal: where they part, and whether rounding can explain it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from oneglance.audit.endpoint.answer import Answer, TokenInfo
from oneglance.audit.verdict import Status

SMALLEST_BOUND = 0.02
"""Nats. Servers round logprobs, and half-precision logits of one model differ by this much."""

LARGEST_BOUND = 0.5
"""Nats. Noise beyond this is no rounding: then one token is e^0.5 = 1.6 times as likely."""

Adjust = Callable[[tuple[str, ...], str], float]
"""Given the tokens before and a token, what the request adds to its logprob, such as a penalty."""


def no_adjustment(_before: tuple[str, ...], _token: str) -> float:
    """Nothing is added."""
    return 0.0


def shared_length(first: Answer, second: Answer) -> int:
    """How many first units (tokens, or characters) two answers share."""
    pairs = zip(first.units, second.units, strict=False)
    return next(
        (index for index, (one, other) in enumerate(pairs) if one != other),
        min(len(first.units), len(second.units)),
    )


def noise(pairs: Iterable[tuple[Answer, Answer]]) -> float:
    """Largest difference of a logprob, in nats, where both answers had the same tokens before."""
    largest = 0.0
    for first, second in pairs:
        if first.tokens is None or second.tokens is None:
            continue
        shared = shared_length(first, second)
        for one, other in zip(first.tokens[:shared], second.tokens[:shared], strict=True):
            if one.logprob is not None and other.logprob is not None:
                largest = max(largest, abs(one.logprob - other.logprob))
    return largest


def tie_bound(largest_noise: float) -> float:
    """How close two tokens must be for rounding to explain that they changed places, in nats.

    Each of the two logprobs can move by the noise, in opposite directions.
    """
    return min(LARGEST_BOUND, max(SMALLEST_BOUND, 2 * largest_noise))


@dataclass(frozen=True)
class Divergence:
    """Where two answers part.

    Attributes:
        position: index of the first token, or character, that differs.
        one: what the first answer has there; None: it has ended.
        other: what the second answer has there; None: it has ended.
        gap: by how many nats the two differ in likelihood, the larger of what both answers say;
            None where the logprobs do not tell.
        bound: what rounding explains, in nats.
    """

    position: int
    one: str | None
    other: str | None
    gap: float | None
    bound: float

    @property
    def status(self) -> Status:
        """Near-tie if rounding explains it, unclear if nobody can tell, otherwise a fault."""
        if self.gap is None:
            return "unclear"
        return "near-tie" if self.gap <= self.bound else "fault"

    def sentence(self) -> str:
        """What is to be said of it."""
        one, other = ("the end" if each is None else repr(each) for each in (self.one, self.other))
        where = f"Answers part at token {self.position}: {one} against {other}"
        if self.gap is None:
            return f"{where}; there are no logprobs to tell a tie from a fault."
        if math.isinf(self.gap):
            return f"{where}; the one is not even among the likely tokens of the other."
        kind = "within" if self.status == "near-tie" else "beyond"
        return f"{where}, {self.gap:.3f} nats apart, {kind} the {self.bound:.3f} of rounding."

    def to_dict(self) -> dict[str, Any]:
        """Evidence for a report."""
        gap = None if self.gap is None or math.isinf(self.gap) else round(self.gap, 5)
        return {
            "position": self.position,
            "one": self.one,
            "other": self.other,
            "gap_nats": gap,
            "bound_nats": round(self.bound, 5),
        }


def first_divergence(
    first: Answer, second: Answer, bound: float, adjust: Adjust = no_adjustment
) -> Divergence | None:
    """Where two greedy answers to one request part; None if they are equal.

    Args:
        first: an answer.
        second: the other.
        bound: see `tie_bound`.
        adjust: what penalties change of the logprobs, which servers report without them.
    """
    shared = shared_length(first, second)
    one, other = (_unit(answer, shared) for answer in (first, second))
    if one is None and other is None and first.text == second.text:
        return None
    gap = None
    if first.tokens is not None and second.tokens is not None:
        before = first.units[:shared]
        gaps = [_gap(answer, shared, one, other, before, adjust) for answer in (first, second)]
        gap = max((each for each in gaps if each is not None), default=None)
        if one is None and other is None:
            gap = math.inf  # the same tokens, another text
    return Divergence(shared, one, other, gap, bound)


def _unit(answer: Answer, index: int) -> str | None:
    return answer.units[index] if index < len(answer.units) else None


def _gap(
    answer: Answer,
    position: int,
    one: str | None,
    other: str | None,
    before: tuple[str, ...],
    adjust: Adjust,
) -> float | None:
    """Distance of two tokens' scores at a position of an answer; infinite if one is unlikely."""
    assert answer.tokens is not None, "the caller has looked"
    if position >= len(answer.tokens):
        return None
    token = answer.tokens[position]
    scores = [_score(token, each, before, adjust) for each in (one, other)]
    if scores[0] is None or scores[1] is None:
        return _gap_to_the_end(token, one, other)
    return abs(scores[0] - scores[1])


def _score(
    token: TokenInfo, text: str | None, before: tuple[str, ...], adjust: Adjust
) -> float | None:
    found = None if text is None else token.score(text)
    return None if found is None or text is None else found + adjust(before, text)


def _gap_to_the_end(token: TokenInfo, one: str | None, other: str | None) -> float | None:
    """The gap where a token is not listed, or an answer has ended by a token that is not shown.

    What is not listed is less likely than all that is. An end has no text to look for, so that the
    best other token stands for it: the gap is at least that.
    """
    if not token.top or token.logprob is None:
        return None
    if one is not None and other is not None:
        return math.inf
    others = [value for text, value in token.top if text != token.text]
    return abs(token.logprob - max(others)) if others else math.inf
