"""Each test has the level that it claims, and finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from oneglance.audit.statistics import (
    bin_counts,
    counts_p,
    counts_power,
    detectable_share,
    evenness_p,
    holm,
    mean_p,
    pair_counts,
    pooled_distance_p,
    rank_transform,
    transform,
    uniform_p,
)
from oneglance.types import Float64Array

Generator = np.random.Generator


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_transforms_cut_the_unit_interval_by_the_law() -> None:
    probs = np.array([0.2, 0.5, 0.3])
    ends = [(transform(probs, [1, 2], token, u)) for token in (1, 2) for u in (0.0, 1.0)]
    assert ends == pytest.approx([0.0, 0.5, 0.5, 0.8])
    # Token 0 is not named: it has what is left.
    assert [transform(probs, [1, 2], 0, u) for u in (0.0, 1.0)] == pytest.approx([0.8, 1.0])
    ranked = [rank_transform(probs, token, u) for token in (1, 2, 0) for u in (0.0, 1.0)]
    assert ranked == pytest.approx([0.0, 0.5, 0.5, 0.8, 0.8, 1.0])
    tied = np.array([0.5, 0.5])
    assert [rank_transform(tied, token, 0.0) for token in (0, 1)] == [0.0, 0.5]


def uniform(generator: Generator) -> float:
    return uniform_p(generator.random(300))


def bins(generator: Generator) -> float:
    return evenness_p(bin_counts(generator.random(300)))


def pairs(generator: Generator) -> float:
    return evenness_p(pair_counts(generator.random(400)))


def mean(generator: Generator) -> float:
    return mean_p(generator.random(100))


def counts(generator: Generator) -> float:
    """Chances that depend on what happened before, as those of a real record do."""
    outcomes: list[tuple[bool, float]] = []
    for _ in range(60):
        chance = 0.2 if outcomes and outcomes[-1][0] else 0.5
        outcomes.append((bool(generator.random() < chance), chance))
    return counts_p(outcomes)


def sequences(generator: Generator, law: tuple[float, ...] = (0.5, 0.3, 0.2)) -> list[list[int]]:
    return [list(generator.choice(3, size=3, p=law)) for _ in range(20)]


def two_samples(generator: Generator) -> float:
    groups = [(sequences(generator), sequences(generator)) for _ in range(2)]
    return pooled_distance_p(groups, num_permutations=199)


@pytest.mark.parametrize("test", [uniform, bins, pairs, mean, counts, two_samples])
def test_p_values_keep_their_level(test: Callable[[Generator], float]) -> None:
    generator = np.random.default_rng(1)
    found = np.array([test(generator) for _ in range(100)])
    # Three standard errors above what is claimed, at two levels.
    assert np.mean(found < 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 100) ** 0.5
    assert np.mean(found < 0.25) <= 0.25 + 3 * (0.25 * 0.75 / 100) ** 0.5
    assert np.mean(found < 0.5) > 0.25, "the test is far too timid"


def test_a_shift_a_shape_and_a_dependence_are_found() -> None:
    generator = np.random.default_rng(2)
    sample: Float64Array = generator.random(600)
    assert uniform_p(sample**1.5) < 1e-4
    wide = np.where(generator.random(600) < 0.5, sample / 4, 1 - sample / 4)
    assert mean_p(wide) > 0.01
    assert uniform_p(wide) < 1e-3
    assert evenness_p(pair_counts(np.repeat(sample, 2))) < 1e-3
    assert evenness_p(pair_counts(sample)) > 0.01


def test_too_many_events_and_too_few_are_found() -> None:
    assert counts_p([(True, 0.5)] * 40) < 1e-3
    assert counts_p([(False, 0.5)] * 40) < 1e-3
    even = [(index % 2 == 0, 0.5) for index in range(40)]
    assert counts_p(even) == 1.0
    assert counts_power(even, 0.01) < 0.1
    assert counts_power([(True, 0.5)] * 40, 0.01) == 1.0
    assert counts_power([], 0.01) == 0.0


def test_another_law_of_sequences_is_found() -> None:
    generator = np.random.default_rng(3)
    groups = [(sequences(generator), sequences(generator, (0.1, 0.3, 0.6))) for _ in range(2)]
    assert pooled_distance_p(groups, num_permutations=199) <= 0.01


def test_the_stated_power_is_had() -> None:
    """Fresh samples with the bias that is said to be detectable are found nine times of ten."""
    size, alpha, head = 400, 0.01, 0.3
    share = detectable_share(size, alpha, head)
    assert 0 < share < 0.5
    generator = np.random.default_rng(4)
    found = 0
    for _ in range(60):
        top = generator.random(size) * head
        biased = np.where(generator.random(size) < share, top, generator.random(size))
        found += uniform_p(biased) < alpha
    assert found >= 45
    assert detectable_share(0, alpha, head) == 1.0
    assert detectable_share(5, alpha, 0.9) == 1.0
