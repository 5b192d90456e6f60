"""Which draft tokens of all sequences together are worth their place in a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneglance.control.cost import PassCosts
from oneglance.control.draft_cost import FREE, DraftPrice
from oneglance.types import Float64Array, IntArray

MIN_GAIN = 0.01
"""Share by which a pass with drafts must be expected to be faster: what costs are uncertain by."""


@dataclass(frozen=True)
class Offer:
    """What one sequence could have drafted for a pass.

    Attributes:
        reaches: [n] probability that its path is kept down to each depth; never rises. A list, as
            most are short and looked at once.
        context: tokens before its rows.
        rows_per_token: rows of the pass for each token of depth; more than 1 for trees.
        entry: seconds to pay if anything is drafted for it, such as for catching up.
    """

    reaches: Sequence[float]
    context: float = 0.0
    rows_per_token: float = 1.0
    entry: float = 0.0


@dataclass(frozen=True)
class Fixed:
    """What is in the pass anyway.

    Attributes:
        num_rows: rows, those of the sequences' last tokens among them.
        tokens: that the pass is expected to deliver, without the offers.
        attended: sum over those rows of the context before them.
    """

    num_rows: float
    tokens: float
    attended: float = 0.0


NOTHING = Fixed(0.0, 0.0)
"""A pass in which nothing is yet."""


def allocate(
    offers: Sequence[Offer], fixed: Fixed, costs: PassCosts, price: DraftPrice = FREE
) -> list[int]:
    """How many tokens of each offer make the pass deliver most tokens a second.

    Tokens are taken in the order of what they add for a row (marginal gain), from whichever
    sequence they are; where to stop is decided by the expected tokens of the whole pass over its
    expected seconds (goodput of SmartSpec, Liu et al., arXiv:2406.14066). As the probabilities of
    a path never rise, no choice of equally many rows promises more.

    Args:
        offers: one for each sequence that may draft.
        fixed: the rest of the pass.
        costs: of a pass.
        price: of drafting, in the unit of `costs`; zero for drafts that are there already.

    Returns:
        Tokens of each offer; all 0 where no draft makes the pass faster by `MIN_GAIN`.
    """
    if sum(len(offer.reaches) for offer in offers) == 0:
        return [0] * len(offers)
    if len(offers) == 1:
        return [_alone(offers[0], fixed, costs, price)]
    taken = _by_gain(offers)
    tokens = fixed.tokens + np.cumsum(taken.reaches)
    seconds = costs.seconds(fixed.num_rows + taken.rows, fixed.attended + taken.attended)
    drafting = price.call + price.token * np.arange(1, len(tokens) + 1) + taken.entries
    speeds = tokens / (seconds + drafting)
    best = int(np.argmax(speeds))
    if speeds[best] <= _speed_to_beat(fixed, costs):
        return [0] * len(offers)
    numbers: list[int] = np.bincount(taken.owners[: best + 1], minlength=len(offers)).tolist()
    return numbers


def _speed_to_beat(fixed: Fixed, costs: PassCosts) -> float:
    return (1.0 + MIN_GAIN) * fixed.tokens / costs.seconds_of(fixed.num_rows, fixed.attended)


def _alone(offer: Offer, fixed: Fixed, costs: PassCosts, price: DraftPrice) -> int:
    """The same for one sequence, without arrays: they would cost as much as a draft is worth."""
    best, best_speed = 0, _speed_to_beat(fixed, costs)
    tokens = fixed.tokens
    for number, reach in enumerate(offer.reaches, start=1):
        tokens += reach
        rows = number * offer.rows_per_token
        seconds = costs.seconds_of(fixed.num_rows + rows, fixed.attended + rows * offer.context)
        speed = tokens / (seconds + price.of(number) + offer.entry)
        if speed > best_speed:
            best, best_speed = number, speed
    return best


@dataclass(frozen=True)
class _Taken:
    """Tokens of offers, in the order in which they are taken.

    Attributes:
        owners: [n] which offer each is of.
        reaches: [n] probability that each is kept.
        rows, attended, entries: [n] what they and those before them add to the pass.
    """

    owners: IntArray
    reaches: Float64Array
    rows: Float64Array
    attended: Float64Array
    entries: Float64Array


def _by_gain(offers: Sequence[Offer]) -> _Taken:
    """The tokens of several sequences by what they add for a row."""
    lengths = [len(offer.reaches) for offer in offers]
    owners = np.repeat(np.arange(len(offers)), lengths)
    reaches = np.concatenate([offer.reaches for offer in offers])
    rows = np.array([offer.rows_per_token for offer in offers])[owners]
    contexts = np.array([offer.context for offer in offers])[owners]
    entries = np.zeros(len(owners))
    firsts = np.cumsum([0, *lengths[:-1]])
    for first, offer in zip(firsts, offers, strict=True):
        if len(offer.reaches):
            entries[first] = offer.entry
    order = np.argsort(-reaches / rows, kind="stable")
    return _Taken(
        owners[order],
        reaches[order],
        np.cumsum(rows[order]),
        np.cumsum(rows[order] * contexts[order]),
        np.cumsum(entries[order]),
    )
