"""Keyed noise draws from the law it is given, position by position, and drafts agree with it.

Statistics on fixed seeds. Critical values are those of chi-square at 0.001; the power of each
test is stated where it has a negative control that must be rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.sampling.noise import SeededNoise
from oneglance.types import Float64Array, IntArray

NUM_POSITIONS = 100_000
LAW = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
CRITICAL_DF_4 = 18.47
CRITICAL_DF_24 = 51.18


@pytest.fixture(scope="module")
def gumbel() -> Float64Array:
    """The noise of many positions: [NUM_POSITIONS, 6]."""
    noise = SeededNoise(2024)
    return np.stack([noise.gumbel(position, 6) for position in range(NUM_POSITIONS)])


def chi_square(samples: IntArray, law: Float64Array) -> float:
    expected = len(samples) * law
    counts = np.bincount(samples, minlength=len(law))
    return float(((counts - expected) ** 2 / expected).sum())


def test_marginal_law(gumbel: Float64Array) -> None:
    samples = np.argmax(np.log(LAW) + gumbel[:, :5], axis=1)
    assert chi_square(samples, LAW) < CRITICAL_DF_4


def test_the_sampler_itself_draws_these_samples(gumbel: Float64Array) -> None:
    noise = SeededNoise(2024)
    samples = np.argmax(np.log(LAW) + gumbel[:2000, :5], axis=1)
    assert [noise.sample(np.log(LAW), position) for position in range(2000)] == samples.tolist()


def test_noise_of_a_wrong_scale_is_rejected(gumbel: Float64Array) -> None:
    """Scale 1.05 makes the law p^(1/1.05): non-centrality 83, power above 0.999."""
    wrong = LAW ** (1 / 1.05)
    wrong /= wrong.sum()
    non_centrality = NUM_POSITIONS * float(((wrong - LAW) ** 2 / LAW).sum())
    assert non_centrality > 60
    samples = np.argmax(np.log(LAW) + 1.05 * gumbel[:, :5], axis=1)
    assert chi_square(samples, LAW) > CRITICAL_DF_4


def bigrams(first: IntArray, second: IntArray) -> float:
    return chi_square(first * 5 + second, np.outer(LAW, LAW).ravel())


def test_positions_are_independent(gumbel: Float64Array) -> None:
    samples = np.argmax(np.log(LAW) + gumbel[:, :5], axis=1)
    assert bigrams(samples[0::2], samples[1::2]) < CRITICAL_DF_24
    half = NUM_POSITIONS // 2
    assert bigrams(samples[:half], samples[half:]) < CRITICAL_DF_24


def test_noise_shared_by_a_twentieth_of_neighbours_is_rejected(gumbel: Float64Array) -> None:
    """Pairs that agree by construction in 1 of 20 cases: non-centrality above 400."""
    samples = np.argmax(np.log(LAW) + gumbel[:, :5], axis=1)
    first, second = samples[0::2], samples[1::2].copy()
    second[::20] = first[::20]
    assert bigrams(first, second) > CRITICAL_DF_24


@pytest.mark.parametrize("other", [SeededNoise(2024, choice=1), SeededNoise(2025)])
def test_seeds_and_choices_are_independent(gumbel: Float64Array, other: SeededNoise) -> None:
    num = 20_000
    elsewhere = np.stack([other.gumbel(position, 5) for position in range(num)])
    first = np.argmax(np.log(LAW) + gumbel[:num, :5], axis=1)
    second = np.argmax(np.log(LAW) + elsewhere, axis=1)
    assert bigrams(first, second) < CRITICAL_DF_24


def agreement(target_probs: Float64Array, draft_probs: Float64Array) -> float:
    """Sum over x of 1 / sum over z of max(p(z)/p(x), q(z)/q(x)) (arXiv:2408.07978)."""
    ratios = np.maximum(
        target_probs[None, :] / target_probs[:, None], draft_probs[None, :] / draft_probs[:, None]
    )
    return float((1 / ratios.sum(axis=1)).sum())


@pytest.mark.parametrize("seed", range(5))
def test_drafts_with_the_same_noise_agree_as_often_as_proved(
    gumbel: Float64Array, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    target_probs, draft_probs = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    targets = np.argmax(np.log(target_probs) + gumbel, axis=1)
    drafts = np.argmax(np.log(draft_probs) + gumbel, axis=1)
    expected = agreement(target_probs, draft_probs)
    deviation = np.sqrt(expected * (1 - expected) / NUM_POSITIONS)
    assert abs(float((targets == drafts).mean()) - expected) < 3.3 * deviation
    distance = 0.5 * float(np.abs(target_probs - draft_probs).sum())
    assert expected >= (1 - distance) / (1 + distance)
    independent = float((target_probs * draft_probs).sum())
    assert expected > independent + 20 * deviation


def test_siblings_follow_the_law_without_replacement() -> None:
    """The first two of `sample_distinct`, as ordered pairs: p(x) p(y) / (1 - p(x))."""
    noise = SeededNoise(77)
    num = 10_000
    pairs = np.array([noise.sample_distinct(np.log(LAW), position, 2) for position in range(num)])
    law = LAW[:, None] * LAW[None, :] / (1 - LAW[:, None])
    np.fill_diagonal(law, 0.0)
    possible = law.ravel() > 0
    counts = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25)
    assert not counts[~possible].any()
    expected = num * law.ravel()[possible]
    assert ((counts[possible] - expected) ** 2 / expected).sum() < 43.82  # 19 degrees of freedom
