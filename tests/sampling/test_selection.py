"""The largest values, against a full stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.sampling.selection import largest, ranked


@pytest.mark.parametrize("count", [1, 2, 7, 39, 40, 41])
@pytest.mark.parametrize("num_levels", [1, 3, 1000])
def test_equals_a_full_sort(count: int, num_levels: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, num_levels, size=40).astype(np.float64)
        values[rng.random(40) < 0.2] = -np.inf
        order = np.argsort(-values, kind="stable")[:count]
        np.testing.assert_array_equal(ranked(values, count), order)
        np.testing.assert_array_equal(largest(values, count), np.sort(order))
