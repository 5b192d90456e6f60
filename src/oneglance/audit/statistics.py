"""Calibrated tests: each p-value is exact, or found by simulating the very same statistic.

What is tested are mostly probability integral transforms. Let a token be drawn from a law p over
tokens in a fixed order, F the mass before it and U uniform: u = F + U p(token) is uniform on
[0, 1], whatever p is, and the u of successive tokens are independent as long as order and law
depend on earlier tokens only (Rosenblatt, 1952). So tokens of any prompts and positions, each with
a law of its own, can be pooled into one sample with a known distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from oneglance.types import Float64Array

NUM_BINS = 10
"""Bins of the unit interval."""

Statistic = Callable[[Float64Array], Float64Array]
"""Maps samples [simulations, n] to a number each [simulations]; large is suspicious."""


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


def bins(samples: Float64Array) -> Float64Array:
    """Chi-squared of equal bins against a uniform law, for each row of [simulations, n]."""
    num_rows, size = samples.shape
    index = np.minimum((samples * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    flat = index + NUM_BINS * np.arange(num_rows)[:, None]
    counts = np.bincount(flat.ravel(), minlength=num_rows * NUM_BINS).reshape(num_rows, NUM_BINS)
    expected = size / NUM_BINS
    chi_squared: Float64Array = ((counts - expected) ** 2).sum(axis=1) / expected
    return chi_squared


def shift(samples: Float64Array) -> Float64Array:
    """How far the mean is from one half, in standard errors, for each row."""
    deviation: Float64Array = np.abs(samples.mean(axis=1) - 0.5) * np.sqrt(12 * samples.shape[1])
    return deviation


def neighbours(samples: Float64Array) -> Float64Array:
    """Chi-squared of pairs (first with second, third with fourth …) in 4 × 4 equal cells."""
    num_rows = len(samples)
    quarters = np.minimum((samples * 4).astype(np.int64), 3)
    cells = 4 * quarters[:, 0::2] + quarters[:, 1::2]
    flat = cells + 16 * np.arange(num_rows)[:, None]
    counts = np.bincount(flat.ravel(), minlength=16 * num_rows).reshape(num_rows, 16)
    expected = cells.shape[1] / 16
    chi_squared: Float64Array = ((counts - expected) ** 2).sum(axis=1) / expected
    return chi_squared


def monte_carlo_p(
    statistic: Statistic, sample: Float64Array, seed: int = 0, num_simulations: int = 9_999
) -> float:
    """Exact p-value of a statistic of a sample [n] that is uniform if all is right.

    (1 + simulations at least as extreme) ÷ (1 + simulations), Barnard 1963.
    """
    if not len(sample):
        return 1.0
    found = float(statistic(sample[None, :])[0])
    simulated = simulate(statistic, len(sample), seed, num_simulations)
    return float(1 + np.sum(simulated >= found - 1e-12)) / (1 + num_simulations)


def simulate(statistic: Statistic, size: int, seed: int, num_simulations: int) -> Float64Array:
    """The statistic of `num_simulations` uniform samples of a size, in pieces that fit memory."""
    generator = np.random.default_rng([seed, size])
    rows = max(1, 2_000_000 // max(1, size))
    parts = [
        statistic(generator.random((min(rows, num_simulations - start), size)))
        for start in range(0, num_simulations, rows)
    ]
    return np.concatenate(parts)


def combined_p(sample: Float64Array, seed: int = 0) -> float:
    """One p-value for shape and mean of a sample: twice the smaller of both (Bonferroni)."""
    return min(1.0, 2 * min(monte_carlo_p(each, sample, seed) for each in (bins, shift)))


def detectable_share(size: int, alpha: float, head: float, seed: int = 0) -> float:
    """Smallest bias that `combined_p` finds with a power of 90 % in a sample of a size.

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
    limits = [
        np.quantile(simulate(each, size, seed, 2_000), 1 - alpha / 2) for each in (bins, shift)
    ]
    uniform = generator.random((200, size))
    chosen = generator.random((200, size))
    top = generator.random((200, size)) * head
    for step in range(1, 40):
        biased = np.where(chosen < step / 40, top, uniform)
        found = (bins(biased) > limits[0]) | (shift(biased) > limits[1])
        if found.mean() >= 0.9:
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
