"""Marginal gains: against every way to share out rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from oneglance.control.allocation import MIN_GAIN, Fixed, Offer, allocate
from oneglance.control.cost import KnownCosts
from oneglance.control.draft_cost import DraftPrice


@pytest.mark.parametrize("seed", range(12))
def test_no_other_lengths_promise_more(seed: int) -> None:
    generator = np.random.default_rng(seed)
    reaches = [np.multiply.accumulate(generator.random(4) ** 0.4) for _ in range(3)]
    costs = KnownCosts(float(generator.choice([0.02, 0.1, 0.3, 1.0])))
    price = DraftPrice(0.02, float(generator.choice([0.0, 0.05])))
    fixed = Fixed(4, 4.0)

    def speed(lengths: tuple[int, ...]) -> float:
        count = sum(lengths)
        tokens = sum(each[:k].sum() for each, k in zip(reaches, lengths, strict=True))
        drafting = price.of(count) if count else 0.0
        return (4.0 + float(tokens)) / (costs.seconds_of(4 + count) + drafting)

    found = allocate([Offer(each.tolist()) for each in reaches], fixed, costs, price)
    best = max(speed(lengths) for lengths in product(range(5), repeat=3))
    assert speed(tuple(found)) >= best / (1 + MIN_GAIN)
    assert any(found) == (best > speed((0, 0, 0)) * (1 + MIN_GAIN))


def test_the_price_of_beginning_with_a_sequence_is_paid_once() -> None:
    reaches = [0.9, 0.8, 0.7, 0.6]
    costs, fixed = KnownCosts(0.1), Fixed(2, 2.0)
    cheap = allocate([Offer(reaches), Offer(reaches, entry=0.0)], fixed, costs)
    dear = allocate([Offer(reaches), Offer(reaches, entry=50.0)], fixed, costs)
    assert cheap[1] > 0
    assert dear[1] == 0 or sum(dear) == 0


def test_nothing_is_offered() -> None:
    assert allocate([], Fixed(1, 1.0), KnownCosts()) == []
    assert allocate([Offer([])] * 2, Fixed(2, 2.0), KnownCosts()) == [0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_one_sequence_is_served_as_though_there_were_others(seed: int) -> None:
    """Alone it takes a shorter way through the same arithmetic."""
    choices = np.random.default_rng(seed)
    offer = Offer(
        np.multiply.accumulate(choices.uniform(0.5, 1.0, 12)).tolist(),
        context=100.0 * seed,
        rows_per_token=1.0 + choices.random(),
        entry=0.3 * choices.random(),
    )
    fixed, costs = Fixed(3, 3, 300.0), KnownCosts(0.02 + 0.1 * choices.random(), 1e-4)
    price = DraftPrice(call=0.1 * choices.random(), token=0.05 * choices.random())
    alone = allocate([offer], fixed, costs, price)
    silent = Offer([])
    assert allocate([offer, silent], fixed, costs, price) == [*alone, 0]
