"""What a drafter says, corrected by what became of it."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.control.acceptance import Acceptance
from oneglance.control.credit import Credit
from oneglance.control.reliability import Reliability, rate_of


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("num_tokens", [1, 2, 9])
def test_the_rate_of_a_sum_is_found(rate: float, num_tokens: int) -> None:
    total = sum(rate**depth for depth in range(1, num_tokens + 1))
    assert rate_of(total, num_tokens) == pytest.approx(rate, abs=1e-3)
    assert rate_of(99.0, num_tokens) > 0.999
    assert rate_of(0.0, num_tokens) < 0.001


def test_before_any_outcome_it_believes_what_is_said() -> None:
    assert sum(Reliability().reaches(4, 2.0)) == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("num_verified", [1, 2, 6])
def test_what_is_learned_does_not_depend_on_how_much_was_verified(num_verified: int) -> None:
    """Tokens are right at 0.5 where 0.9 is said; parts of the drafts are verified."""
    generator = np.random.default_rng(1)
    reliability = Reliability()
    said = sum(0.9**depth for depth in range(1, 7))
    for _ in range(600):
        right = generator.random(6) < 0.5
        num_kept = int(np.argmin([*right, False]))
        num_known = min(num_verified, num_kept) + 1
        reliability.update(6, said, min(num_known, 6), min(num_kept, num_known))
    assert reliability.reaches(6, said)[0] == pytest.approx(0.5, abs=0.08)


def test_classes_are_told_apart_and_shared_with_other_requests() -> None:
    parent = Reliability()
    child = Reliability(parent)
    for _ in range(40):
        child.update(1, 0.9, 1, 0)
        child.update(1, 0.5, 1, 1)
    for each in (child, Reliability(parent)):
        assert each.reaches(1, 0.9)[0] < 0.2
        assert each.reaches(1, 0.5)[0] > 0.8


def test_acceptance_begins_with_a_guess_and_learns_depths() -> None:
    acceptance = Acceptance(Acceptance(guess=0.75))
    assert acceptance.rates(3) == pytest.approx([0.75] * 3)
    for _ in range(60):
        acceptance.update(3, 1)
    rates = acceptance.rates(3)
    assert rates[0] > 0.9 > 0.2 > rates[1]
    assert acceptance.reaches(2) == pytest.approx([rates[0], rates[0] * rates[1]])


def test_credit_is_earned_by_what_is_kept_and_spent_on_rows() -> None:
    credit = Credit(1.0, per_pass=0.5)
    credit.note_pass()
    credit.note_pass(num_kept=2, price=3.0)
    assert credit.tokens == pytest.approx(1.0)
    assert not credit.pay(1.1)
    assert credit.pay(0.9)
    assert credit.tokens == pytest.approx(0.1)
