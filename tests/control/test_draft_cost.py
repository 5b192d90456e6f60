"""Prices of drafting, fitted to calls that were timed on a machine that others use too."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.control.draft_cost import DraftCosts, DraftPrice

TRUTH = DraftPrice(0.004, 0.010, 0.002)


def calls(count: int, seed: int = 0, outliers: float = 0.0) -> list[tuple[int, float, int]]:
    """Tokens, seconds and unseen tokens; one in some calls takes up to ten times as long."""
    generator = np.random.default_rng(seed)
    made = []
    for index in range(count):
        tokens = int(generator.integers(1, 9))
        unseen = 120 if index == 0 else int(generator.integers(1, 6))
        seconds = TRUTH.of(tokens, unseen) * float(generator.lognormal(0.0, 0.05))
        if generator.random() < outliers:
            seconds *= float(generator.uniform(2, 10))
        made.append((tokens, seconds, unseen))
    return made


def learn(costs: DraftCosts, made: list[tuple[int, float, int]]) -> DraftPrice:
    for call in made:
        costs.note(*call)
    return costs.price


@pytest.mark.parametrize("outliers", [0.0, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_call_token_and_catching_up_are_told_apart(seed: int, outliers: float) -> None:
    price = learn(DraftCosts(), calls(60, seed, outliers))
    for tokens, unseen in ((1, 1), (4, 1), (8, 1), (4, 5)):
        assert price.of(tokens, unseen) == pytest.approx(TRUTH.of(tokens, unseen), rel=0.15)
    assert price.token == pytest.approx(TRUTH.token, rel=0.2)


def test_the_reading_of_a_prompt_is_no_price_of_tokens() -> None:
    price = learn(DraftCosts(), [(4, TRUTH.of(4, 300), 300)] + [(4, TRUTH.of(4, 1), 1)] * 5)
    assert price.of(4, 1) == pytest.approx(TRUTH.of(4, 1), rel=0.1)
    assert price.unseen == pytest.approx(TRUTH.unseen, rel=0.1)


def test_drafts_cost_what_was_guessed_until_one_is_timed() -> None:
    assert DraftCosts().price == DraftPrice()
    costs = DraftCosts(DraftPrice(0.1, 0.5, 0.2), lambda: 0.02)
    assert costs.price.of(2, 3) == pytest.approx(0.02 * (0.1 + 1.0 + 0.6))
    costs.note(4, 0.1, 1)
    assert costs.price.of(4, 1) == pytest.approx(0.1, rel=0.1)


def test_the_prices_follow_the_machine() -> None:
    costs = DraftCosts()
    learn(costs, calls(60))
    slower = [(tokens, 2 * seconds, unseen) for tokens, seconds, unseen in calls(80, 1)[1:]]
    assert learn(costs, slower).of(4, 1) == pytest.approx(2 * TRUTH.of(4, 1), rel=0.2)


def test_no_price_is_negative() -> None:
    price = learn(DraftCosts(), [(1, 0.02, 5), (8, 0.02, 1), (4, 0.02, 3), (0, 0.02, 1)] * 8)
    assert min(price.call, price.token, price.unseen) >= 0.0
    assert price.of(4, 2) == pytest.approx(0.02, rel=0.1)
