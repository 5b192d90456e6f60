"""What heads say of their guesses, weighed by what became of them."""

from __future__ import annotations

import pytest

from oneglance.drafters.medusa_calibration import MAX_RANKS, Calibration


def test_nothing_known_leaves_what_was_said() -> None:
    calibration = Calibration.fresh(2)
    assert calibration.chance(1, 0, 0.4) == 0.4
    assert 0 < calibration.rate(1) < calibration.rate(0) < 1


def test_chances_come_to_what_the_guesses_are_worth() -> None:
    calibration = Calibration.fresh(1)
    for index in range(1000):  # said 0.8, right half of the time
        calibration.note(0, [0.8, 0.1], 0 if index % 2 else 1)
    assert calibration.chance(0, 0, 0.8) == pytest.approx(0.5, abs=0.01)
    assert calibration.chance(0, 1, 0.1) == pytest.approx(0.5, abs=0.02)
    assert calibration.rate(0) == pytest.approx(0.5, abs=0.01)
    assert calibration.chance(0, 1, 0.9) == 1.0, "a chance is at most 1"


def test_ranks_beyond_the_last_are_one() -> None:
    calibration = Calibration.fresh(1)
    calibration.note(0, [0.01] * (MAX_RANKS + 3), MAX_RANKS + 2)
    assert calibration.hits[0, -1] == 1
    assert calibration.said[0, -1] == pytest.approx(0.04)
    assert calibration.chance(0, MAX_RANKS + 5, 0.01) > 0.01


def test_a_copy_learns_by_itself() -> None:
    calibration = Calibration.fresh(1)
    copy = calibration.copy()
    copy.note(0, [0.9], 0)
    assert calibration.counts[0] == 0
    assert copy.counts[0] == 1
