"""The enumerator visits every outcome once and knows its probability."""

from __future__ import annotations

import time

import numpy as np
import pytest

from oneglance.errors import ParameterError
from oneglance.sampling.noise import Noise
from oneglance.verify.enumeration import BranchingNoise, enumerate_outcomes


def test_two_coins() -> None:
    found = enumerate_outcomes(lambda noise: (noise.coin(0.25), noise.coin(0.5)))
    assert found == {
        (True, True): 0.125,
        (True, False): 0.125,
        (False, True): 0.375,
        (False, False): 0.375,
    }


def test_outcomes_of_probability_zero_are_not_visited() -> None:
    found = enumerate_outcomes(
        lambda noise: (noise.coin(0.0), noise.coin(1.0), noise.draw(np.array([0.0, 0.5, 0.5])))
    )
    assert found == {(False, True, 1): 0.5, (False, True, 2): 0.5}


def test_ways_to_the_same_value_are_added_up() -> None:
    def first_success(noise: Noise) -> int:
        return next((turn for turn in range(3) if noise.coin(0.5)), 3)

    assert enumerate_outcomes(first_success) == {0: 0.5, 1: 0.25, 2: 0.125, 3: 0.125}
    sums = enumerate_outcomes(lambda noise: sum(noise.draw(np.full(6, 1 / 6)) for _ in range(2)))
    assert sums[5] == pytest.approx(6 / 36)
    assert sum(sums.values()) == pytest.approx(1)


def test_laws_are_normalized_as_production_noise_does() -> None:
    assert enumerate_outcomes(lambda noise: noise.draw(np.array([1.0, 3.0]))) == {0: 0.25, 1: 0.75}


def test_too_many_outcomes_are_refused() -> None:
    with pytest.raises(ParameterError, match="limit = 10 replays"):
        enumerate_outcomes(lambda noise: [noise.coin(0.5) for _ in range(5)].count(True), limit=10)
    assert len(enumerate_outcomes(lambda noise: noise.draw(np.ones(10)), limit=10)) == 10


def test_a_run_that_depends_on_anything_else_is_noticed() -> None:
    chances = iter([0.5, 0.25])
    with pytest.raises(AssertionError, match="another question"):
        enumerate_outcomes(lambda noise: noise.coin(next(chances)))
    kinds = iter([True, False])
    with pytest.raises(AssertionError, match="another question"):
        enumerate_outcomes(lambda noise: noise.coin(0.5) if next(kinds) else noise.draw(np.ones(2)))
    lengths = iter([2, 0])
    with pytest.raises(AssertionError, match="fewer choices"):
        enumerate_outcomes(lambda noise: sum(noise.coin(0.5) for _ in range(next(lengths))))


def test_meaningless_probabilities_are_refused() -> None:
    noise = BranchingNoise()
    with pytest.raises(AssertionError, match="negative or NaN"):
        noise.coin(float("nan"))
    with pytest.raises(AssertionError, match="no mass"):
        noise.draw(np.zeros(3))


def test_it_is_fast_enough_for_whole_decode_loops() -> None:
    start = time.perf_counter()
    found = enumerate_outcomes(lambda noise: sum(noise.coin(0.5) for _ in range(12)))
    assert found[6] == pytest.approx(924 / 4096)
    assert time.perf_counter() - start < 2  # about 0.05 s: 4096 replays of 12 coins
