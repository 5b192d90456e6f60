"""Coins and draws at their edges; keyed noise bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.sampling.noise import SeededNoise, SequentialNoise, inverse_cdf, noise_for
from oneglance.types import Float64Array
from tests.sampling.philox import philox_block


def test_coins_are_strict() -> None:
    noise = SequentialNoise(1)
    assert not any(noise.coin(0.0) for _ in range(1000))
    assert all(noise.coin(1.0) for _ in range(1000))
    heads = sum(noise.coin(0.3) for _ in range(20_000))
    assert abs(heads - 6000) < 4 * math.sqrt(20_000 * 0.3 * 0.7)
    with pytest.raises(AssertionError, match="negative or NaN"):
        noise.coin(math.nan)


def test_a_uniform_of_zero_keeps_nothing_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zero:
        def random(self) -> float:
            return 0.0

    noise = SequentialNoise(1)
    monkeypatch.setattr(noise, "_generator", Zero())
    assert not noise.coin(0.0)
    assert noise.coin(5e-324)
    assert noise.draw(np.array([0.0, 0.5, 0.5])) == 1


def test_draws_follow_the_law() -> None:
    noise = SequentialNoise(2)
    probs = np.array([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    counts = np.bincount([noise.draw(probs) for _ in range(20_000)], minlength=6)
    assert not counts[probs == 0].any()
    spread = np.sqrt(20_000 * probs * (1 - probs))
    assert (np.abs(counts - 20_000 * probs) <= 4 * spread).all()


def test_seeds_repeat_and_entropy_does_not() -> None:
    uniform = np.full(1000, 1e-3)
    first, second = SequentialNoise(5), SequentialNoise(5)
    assert [first.draw(uniform) for _ in range(9)] == [second.draw(uniform) for _ in range(9)]
    fresh, other = SequentialNoise(), SequentialNoise()
    assert [fresh.draw(uniform) for _ in range(9)] != [other.draw(uniform) for _ in range(9)]


@pytest.mark.parametrize(
    ("probs", "uniform", "index"),
    [
        ([0.0, 0.5, 0.5, 0.0], 0.0, 1),
        ([0.0, 0.5, 0.5, 0.0], 0.5, 2),
        ([0.0, 0.5, 0.5, 0.0], math.nextafter(0.5, 0), 1),
        ([0.0, 0.5, 0.5, 0.0], math.nextafter(1, 0), 2),
        ([0.0, 0.5, 0.5, 0.0], 1.0, 2),
        ([0.1] * 9 + [0.0], math.nextafter(1, 0), 8),
        ([1.0, 5e-324, 0.0], 1.0, 1),
        ([1.0, 3.0], 0.25, 1),
        ([5e-324, 0.0], math.nextafter(1, 0), 0),
    ],
)
def test_inverse_cdf_at_the_edges(probs: list[float], uniform: float, index: int) -> None:
    assert inverse_cdf(np.array(probs), uniform) == index


@pytest.mark.parametrize("probs", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_a_law_without_mass_is_a_bug(probs: list[float]) -> None:
    with pytest.raises(AssertionError, match="no mass"):
        inverse_cdf(np.array(probs), 0.5)


def test_philox_reference_has_the_published_vectors() -> None:
    """Known answers of the authors' library, Random123."""
    assert philox_block((0, 0, 0, 0), (0, 0)) == (
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    )


@pytest.mark.parametrize("position", [0, 1, 4095, 2**40])
@pytest.mark.parametrize(("seed", "choice"), [(0, 0), (7, 0), (7, 3), (2**64 - 1, 2**32 - 1)])
def test_noise_is_what_the_docstring_defines(seed: int, choice: int, position: int) -> None:
    found = SeededNoise(seed, choice).gumbel(position, 11)
    for token in range(11):
        word = philox_block((1 + token // 4, position, 0, 0), (seed, choice))[token % 4]
        uniform = ((word >> 12) + 0.5) * 2.0**-52
        assert found[token] == pytest.approx(-math.log(-math.log(uniform)), rel=1e-14)


def test_noise_does_not_depend_on_the_vocabulary_size() -> None:
    noise = SeededNoise(3)
    longest = noise.gumbel(17, 5000)
    for size in (1, 2, 63, 4999):
        np.testing.assert_array_equal(noise.gumbel(17, size), longest[:size])


def by_hand(noise: SeededNoise, logits: Float64Array, position: int) -> list[int]:
    scores = logits + noise.gumbel(position, len(logits))
    order = np.argsort(-scores, kind="stable")
    return [int(token) for token in order if scores[token] > -math.inf]


@pytest.mark.parametrize("size", [1, 5, 65, 66, 3000])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("num_forbidden", [0, 1, 5])
def test_sample_is_the_argmax_over_the_whole_vocabulary(
    size: int, scale: float, num_forbidden: int
) -> None:
    """Also where most tokens were ruled out without computing their noise."""
    rng = np.random.default_rng(size)
    noise = SeededNoise(9)
    for position in range(15):
        logits = rng.normal(size=size) * scale
        logits[rng.random(size) < num_forbidden / 6] = -math.inf
        logits[rng.integers(size)] = 0.0
        expected = by_hand(noise, logits, position)
        assert noise.sample(logits, position) == expected[0]
        for count in (1, 4, 40):
            assert noise.sample_distinct(logits, position, count) == expected[:count]


def test_few_allowed_tokens_of_many() -> None:
    logits = np.full(3000, -math.inf)
    logits[[5, 1000, 2999]] = [0.0, 1.0, 0.5]
    noise = SeededNoise(1)
    for position in range(20):
        assert noise.sample_distinct(logits, position, 4) == by_hand(noise, logits, position)


def test_adding_a_constant_changes_no_sample() -> None:
    noise = SeededNoise(4)
    logits = np.random.default_rng(1).normal(size=500)
    for position in range(50):
        assert noise.sample(logits, position) == noise.sample(logits + 32.0, position)


def test_ties_go_to_the_lowest_id() -> None:
    """Logits so large that the noise is lost in rounding."""
    assert SeededNoise(1).sample(np.array([0.0, 1e300, 1e300]), 0) == 1
    assert SeededNoise(1).sample(np.full(500, 1e300), 0) == 0


def test_a_law_without_tokens_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="forbidden"):
        SeededNoise(1).sample(np.full(3, -math.inf), 0)


def test_noise_for_a_request() -> None:
    assert isinstance(noise_for(SamplingParams()), SequentialNoise)
    assert noise_for(SamplingParams(seed=4, choice=2)) == SeededNoise(4, 2)
