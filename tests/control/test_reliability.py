"""What a drafter says, corrected by what became of it."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.control.acceptance import Acceptance
from oneglance.control.credit import Credit
from oneglance.control.reliability import Reliability, rate_of
from oneglance.types import Proposal


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("num_tokens", [1, 2, 9])
def test_the_rate_of_a_sum_is_found(rate: float, num_tokens: int) -> None:
    total = sum(rate**depth for depth in range(1, num_tokens + 1))
    assert rate_of(total, num_tokens) == pytest.approx(rate, abs=1e-3)
    assert rate_of(99.0, num_tokens) > 0.999
    assert rate_of(0.0, num_tokens) < 0.001


def chain(num_tokens: int, said: float) -> Proposal:
    return Proposal.chain([1] * num_tokens, expected=said)


def outcome(num_known: int, num_kept: int) -> list[int]:
    """What was decided where so many tokens of a chain were right."""
    return [1] * num_kept + [0] * (num_known - num_kept)


def tree(*nodes: tuple[int, int, float]) -> Proposal:
    """Of tokens with their parents and reaches."""
    tokens, parents, reaches = zip(*nodes, strict=True)
    return Proposal(
        np.array(tokens), np.array(parents), reaches=reaches, expected=float(sum(reaches))
    )


def test_before_any_outcome_it_believes_what_is_said() -> None:
    assert sum(Reliability().reaches(chain(4, 2.0))) == pytest.approx(2.0, rel=0.01)
    said = (0.9, 0.45, 0.05, 0.3, 0.1)
    parents = (-1, 0, -1, 1, 2)
    draft = tree(*zip((5, 6, 7, 8, 9), parents, (*said[:4], 0.01), strict=True))
    assert Reliability().reaches(draft) == pytest.approx(draft.reaches)


def test_tokens_of_a_tree_are_judged_each_by_what_was_said_of_it() -> None:
    """First choices are said to be right at 0.9 and are at 0.5, second ones at 0.1 and are at 0.3;
    what hangs off a branch that came nowhere tells nothing."""
    generator = np.random.default_rng(2)
    reliability = Reliability(Reliability())
    draft = tree((1, -1, 0.9), (2, -1, 0.1), (1, 0, 0.81), (2, 0, 0.09))
    for _ in range(400):
        token = int(generator.choice([1, 2, 3], p=[0.5, 0.3, 0.2]))
        follows = int(generator.choice([1, 2, 3], p=[0.5, 0.3, 0.2]))
        decided = [token, follows if token == 1 else 3]
        reliability.update(draft, decided, draft.num_matched(decided))
    first, second, third, fourth = reliability.reaches(draft)
    assert (first, second) == pytest.approx((0.5, 0.3), abs=0.08)
    assert (third / first, fourth / first) == pytest.approx((0.5, 0.3), abs=0.1)


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
        known, kept = min(num_known, 6), min(num_kept, num_known)
        reliability.update(chain(6, said), outcome(known, kept), kept)
    assert reliability.reaches(chain(6, said))[0] == pytest.approx(0.5, abs=0.08)


def test_classes_are_told_apart_and_shared_with_other_requests() -> None:
    parent = Reliability()
    child = Reliability(parent)
    for _ in range(40):
        child.update(chain(1, 0.9), outcome(1, 0), 0)
        child.update(chain(1, 0.5), outcome(1, 1), 1)
    for each in (child, Reliability(parent)):
        assert each.reaches(chain(1, 0.9))[0] < 0.2
        assert each.reaches(chain(1, 0.5))[0] > 0.8


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
