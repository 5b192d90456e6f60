"""What passes and drafts cost, learned from noisy timings."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.control.cost import PassCosts


def seconds(costs: PassCosts, *num_rows: int) -> list[float]:
    return [float(value) for value in costs.seconds(np.array(num_rows))]


def test_before_anything_is_timed_rows_cost_what_was_guessed() -> None:
    assert seconds(PassCosts(0.1), 1, 2, 11) == pytest.approx([1.0, 1.1, 2.0])
    assert not PassCosts().is_known


def test_one_pass_sets_the_level_of_all_sizes() -> None:
    costs = PassCosts(0.1)
    costs.note(11, 0.2)
    assert costs.is_known
    assert seconds(costs, 1, 6, 11, 21) == pytest.approx([0.1, 0.15, 0.2, 0.3])


def test_a_stepped_machine_is_learned_in_spite_of_noise_and_of_a_changing_speed() -> None:
    """Costs in units of one row; the machine slows down by half while they are measured."""
    truth = {1: 1.0, 2: 1.05, 4: 1.2, 8: 1.6, 16: 3.2}
    generator = np.random.default_rng(3)
    costs = PassCosts(0.1)
    for index in range(2000):
        rows = int(generator.choice(list(truth)))
        speed = 0.01 * (1.0 if index < 1000 else 1.5)
        costs.note(rows, truth[rows] * speed * float(generator.lognormal(0.0, 0.1)))
    measured = np.array(seconds(costs, *truth))
    ratios = measured / measured[0]
    assert ratios == pytest.approx(np.array(list(truth.values())), rel=0.15)
    assert measured[0] == pytest.approx(0.015, rel=0.2)
    between = seconds(costs, 8, 12, 16)
    assert between[1] == pytest.approx((between[0] + between[2]) / 2)


def test_an_interrupted_pass_moves_little() -> None:
    costs = PassCosts()
    for _ in range(50):
        costs.note(1, 0.01)
    costs.note(1, 10.0)
    assert seconds(costs, 1)[0] < 0.02
