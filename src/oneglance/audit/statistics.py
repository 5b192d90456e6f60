"""Calibrated tests: each p-value is exact, or found by simulating the very same statistic.

What is tested are mostly probability integral transforms. Let a token be drawn from a law p over
tokens in a fixed order, F the mass before it and U uniform: u = F + U p(token) is uniform on
[0, 1], whatever p is, and the u of successive tokens are independent as long as order and law
depend on earlier tokens only (Rosenblatt, 1952). So tokens of any prompts and positions, each with
a law of its own, can be pooled into one sample with a known distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from oneglance.types import BoolArray, Float64Array, IntArray

NUM_BINS = 10
"""Equal bins of the unit interval."""

NUM_SIDE_CELLS = 4
"""Neighbours are counted in so many by so many equal cells."""

NUM_SIMULATIONS = 19_999
NUM_REPEATS = 100
"""Simulated audits for the power."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values that keep the family-wise error rate."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def transform(probs: Float64Array, order: Sequence[int], token: int, uniform: float) -> float:
    """The probability integral transform of a token under a law and an order of the tokens.

    Args:
        probs: [V] the law.
        order: the first tokens in their order; those that are not named come last, together.
        token: what was drawn.
        uniform: an independent number in [0, 1].
    """
    before = 0.0
    for other in order:
        if other == token:
            return before + uniform * float(probs[token])
        before += float(probs[other])
    return before + uniform * max(0.0, 1.0 - before)


def rank_transform(probs: Float64Array, token: int, uniform: float) -> float:
    """As `transform`, with all tokens in order of falling probability, ties by id."""
    ids = np.arange(len(probs))
    is_before = (probs > probs[token]) | ((probs == probs[token]) & (ids < token))
    before = float(probs[is_before].sum())
    return min(1.0, before + uniform * float(probs[token]))


def bin_counts(sample: Float64Array) -> IntArray:
    """How many of a sample fall into each of `NUM_BINS` equal bins."""
    index = np.minimum((sample * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    return np.bincount(index, minlength=NUM_BINS)


def pair_counts(sample: Float64Array) -> IntArray:
    """Counts of pairs (first with second, third with fourth …) in equal cells of the square."""
    index = np.minimum((sample * NUM_SIDE_CELLS).astype(np.int64), NUM_SIDE_CELLS - 1)
    cells = NUM_SIDE_CELLS * index[0::2] + index[1::2]
    return np.bincount(cells, minlength=NUM_SIDE_CELLS**2)


def evenness_p(counts: IntArray, seed: int = 0) -> float:
    """Exact p-value of Pearson's chi-squared for cells that are all equally likely.

    (1 + simulations at least as extreme) ÷ (1 + simulations), Barnard 1963.
    """
    found = _chi_squared(counts[None, :])[0]
    simulated = _simulated_chi_squared(int(counts.sum()), len(counts), seed)
    return float(1 + np.sum(simulated >= found - 1e-12)) / (1 + NUM_SIMULATIONS)


def mean_p(sample: Float64Array) -> float:
    """Two-sided p-value of the mean of a sample that is uniform on [0, 1] if all is right.

    By the normal law, to which means of uniform numbers come close from a dozen on; its tails are
    the heavier ones, so that the error is on the safe side.
    """
    return math.erfc(float(_shift(sample[None, :])[0]) / math.sqrt(2))


def _chi_squared(counts: IntArray) -> Float64Array:
    expected = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    chi_squared: Float64Array = ((counts - expected) ** 2 / np.maximum(expected, 1e-300)).sum(
        axis=1
    )
    return chi_squared


@lru_cache(maxsize=16)
def _simulated_chi_squared(size: int, num_cells: int, seed: int) -> Float64Array:
    generator = np.random.default_rng([seed, size, num_cells])
    even = np.full(num_cells, 1 / num_cells)
    return _chi_squared(generator.multinomial(size, even, size=NUM_SIMULATIONS))


def _shift(samples: Float64Array) -> Float64Array:
    """How far the mean of each row is from one half, in standard errors."""
    deviation: Float64Array = np.abs(samples.mean(axis=1) - 0.5) * math.sqrt(12 * samples.shape[1])
    return deviation


def uniform_p(sample: Float64Array, seed: int = 0) -> float:
    """One p-value for shape and mean of a sample: twice the smaller of both (Bonferroni)."""
    return min(1.0, 2 * min(evenness_p(bin_counts(sample), seed), mean_p(sample)))


def counts_p(outcomes: Sequence[tuple[bool, float]]) -> float:
    """Two-sided p-value of a number of events, each with a probability known beforehand.

    By the exact law of a sum of independent events. The probabilities may depend on earlier
    outcomes; then the sum is that of a martingale with these variances, whose law that one meets
    as the number grows.
    """
    law = _law_of_count([chance for _, chance in outcomes])
    found = sum(is_event for is_event, _ in outcomes)
    return min(1.0, 2 * float(min(law[: found + 1].sum(), law[found:].sum())))


def counts_power(outcomes: Sequence[tuple[bool, float]], alpha: float, seed: int = 0) -> float:
    """How often `counts_p` is below a level, for samples like this one (a bootstrap)."""
    if not outcomes:
        return 0.0
    chances = [chance for _, chance in outcomes]
    cumulative = np.cumsum(_law_of_count(chances))
    low, high = np.searchsorted(cumulative, [alpha / 2, 1 - alpha / 2])
    excess = np.array([is_event - chance for is_event, chance in outcomes])
    generator = np.random.default_rng([seed, len(outcomes), 4])
    drawn = excess[generator.integers(len(excess), size=(NUM_REPEATS, len(excess)))]
    sums = drawn.sum(axis=1) + sum(chances)
    return float(np.mean((sums < low) | (sums > high)))


def _law_of_count(chances: Sequence[float]) -> Float64Array:
    """[n + 1] the law of how many of n independent events happen (Poisson-binomial)."""
    law = np.zeros(len(chances) + 1)
    law[0] = 1.0
    for chance in chances:
        happens = law[:-1] * chance
        law *= 1 - chance
        law[1:] += happens
    return law


def _is_found(rows: Float64Array, alpha: float, seed: int) -> BoolArray:
    """Whether `uniform_p` is below a level, for each row."""
    size = rows.shape[1]
    bins_limit = np.quantile(_simulated_chi_squared(size, NUM_BINS, seed), 1 - alpha / 2)
    shift_limit = NormalDist().inv_cdf(1 - alpha / 4)
    counts = np.array([bin_counts(row) for row in rows])
    return (_chi_squared(counts) > bins_limit) | (_shift(rows) > shift_limit)


def detectable_share(size: int, alpha: float, head: float, seed: int = 0) -> float:
    """Smallest bias that `uniform_p` finds with a power of 90 % in a sample of a size.

    The bias: in this share of positions the likeliest token is delivered instead of one that is
    drawn, which is what leniently kept drafts amount to.

    Args:
        size: tokens in the sample.
        alpha: level that a p-value must stay below.
        head: mean probability of the likeliest token.
        seed: of the simulation.

    Returns:
        A share in steps of a fortieth; 1.0 where not even that is found.
    """
    if not size:
        return 1.0
    generator = np.random.default_rng([seed, size, 1])
    uniform, chosen, top = generator.random((3, NUM_REPEATS, size))
    for step in range(1, 40):
        biased = np.where(chosen < step / 40, top * head, uniform)
        if _is_found(biased, alpha, seed).mean() >= 0.9:
            return step / 40
    return 1.0


def pooled_distance_p(
    groups: Sequence[tuple[Sequence[Sequence[object]], Sequence[Sequence[object]]]],
    seed: int = 0,
    num_permutations: int = 1_999,
) -> float:
    """Two-sample permutation test on sequences: exact whatever their law is.

    The statistic is a maximum mean discrepancy (Gretton et al., JMLR 13, 2012) whose kernel is the
    number of first tokens that two sequences share, summed over groups; only within a group (a
    prompt) are labels exchanged.

    Args:
        groups: for each prompt, the sequences of one sampler and those of the other.
        seed: of the permutations.
        num_permutations: how many.
    """
    generator = np.random.default_rng([seed, 2])
    totals = np.zeros(num_permutations + 1)
    for first, second in groups:
        kernel = _shared_prefixes([*first, *second])
        sign = np.concatenate(
            [
                np.full(len(first), 1 / max(1, len(first))),
                np.full(len(second), -1 / max(1, len(second))),
            ]
        )
        signs = np.array([sign, *(generator.permutation(sign) for _ in range(num_permutations))])
        totals += np.einsum("ij,jk,ik->i", signs, kernel, signs, optimize=True)
    return float(np.sum(totals >= totals[0] - 1e-12)) / (1 + num_permutations)


def _shared_prefixes(sequences: Sequence[Sequence[object]]) -> Float64Array:
    """[n, n] how many first tokens each two sequences share."""
    size = len(sequences)
    shared = np.zeros((size, size))
    for position in range(max((len(each) for each in sequences), default=0)):
        labels: dict[tuple[object, ...], int] = {}
        codes = np.array(
            [
                labels.setdefault(tuple(each[: position + 1]), len(labels))
                if len(each) > position
                else -1 - index
                for index, each in enumerate(sequences)
            ]
        )
        shared += codes[:, None] == codes[None, :]
    return shared
