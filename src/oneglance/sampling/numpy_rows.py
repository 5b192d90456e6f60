"""The row operations in numpy: what an installation without a compiler samples with.

Each method is documented in `row_kernels.RowKernels` and gives the bits of the compiled kernels.
"""

from __future__ import annotations

import math

import numpy as np

from oneglance.sampling import elementary
from oneglance.sampling.philox import best_with_noise, gumbel_of, words_below
from oneglance.sampling.selection import ranked
from oneglance.types import Float32Array, Float64Array, IntArray

_LANES = 16
_BLOCK = 256
"""Elements after which `draw` notes the sum so far."""

_FIRST_NUCLEUS = 512
"""How many of the most probable elements are sorted at first in search of a nucleus."""


class NumpyRows:
    """Implements `RowKernels`."""

    def argmax(self, row: Float32Array | Float64Array) -> int:
        """See `RowKernels`."""
        return int(np.argmax(row))

    def log_normalizer(self, row: Float32Array | Float64Array) -> float:
        """See `RowKernels`."""
        best = float(row[np.argmax(row)])
        if not math.isfinite(best):
            return math.nan
        return best + self.log(self.sum(elementary.exp(_scores(row, best, 1.0))))

    def ranked(self, row: Float32Array | Float64Array, count: int) -> IntArray:
        """See `RowKernels`."""
        numbers = np.flatnonzero(~np.isnan(row))
        return numbers[ranked(row[numbers], count)]

    def at_least(
        self, row: Float32Array | Float64Array, best: float, temperature: float, floor: float
    ) -> IntArray:
        """See `RowKernels`."""
        return np.flatnonzero(_scores(row, best, temperature) >= floor)

    def nucleus(
        self, row: Float32Array | Float64Array, best: float, temperature: float, share: float
    ) -> IntArray:
        """See `RowKernels`.

        The sorted stretch grows until it is long enough; its prefix sums do not depend on how far
        it was sorted, so the outcome does not either.
        """
        scores = _scores(row, best, temperature)
        weights = elementary.exp(scores)
        wanted = share * self.sum(weights)
        num_sorted = _FIRST_NUCLEUS
        while True:
            order = ranked(scores, num_sorted)
            cumulative = np.cumsum(weights[order])
            if cumulative[-1] >= wanted or num_sorted >= len(scores):
                break
            num_sorted *= 8
        num_kept = int(np.searchsorted(cumulative, wanted, side="left")) + 1
        return np.sort(order[:num_kept])

    def draw(
        self, row: Float32Array | Float64Array, best: float, temperature: float, uniform: float
    ) -> int:
        """See `RowKernels`."""
        weights = elementary.exp(_scores(row, best, temperature))
        partials = np.cumsum(_in_lanes(weights), axis=0)
        last_rows = np.arange(_BLOCK // _LANES, len(partials) + _BLOCK // _LANES, _BLOCK // _LANES)
        sums = _sum_of_lanes(partials[np.minimum(last_rows, len(partials)) - 1])
        target = uniform * sums[-1]
        block = int(np.searchsorted(sums, target, side="right"))
        if block == len(sums):  # rounding made the target the total: the last block with any mass
            block = int(np.searchsorted(sums, sums[-1], side="left"))
        begin = block * _BLOCK
        inside = weights[begin : begin + _BLOCK]
        before = sums[block - 1] if block > 0 else 0.0
        cumulative = np.cumsum(np.concatenate([[before], inside]))[1:]
        index = int(np.searchsorted(cumulative, target, side="right"))
        if index == len(inside):
            index = int(np.flatnonzero(inside)[-1])
        return begin + index

    def best_with_noise(
        self,
        row: Float32Array | Float64Array,
        best: float,
        temperature: float,
        ids: IntArray | None,
        seed: int,
        choice: int,
        position: int,
        count: int,
    ) -> IntArray:
        """See `RowKernels`."""
        size = len(row) if ids is None else int(ids[-1]) + 1
        words = words_below(size, seed, choice, position)
        if ids is not None:
            words = words[ids]
        return best_with_noise(_scores(row, best, temperature), words, count)

    def gumbel(self, ids: IntArray, seed: int, choice: int, position: int) -> Float64Array:
        """See `RowKernels`."""
        return gumbel_of(words_below(int(ids.max(initial=-1)) + 1, seed, choice, position)[ids])

    def exp(self, x: Float64Array) -> Float64Array:
        """See `RowKernels`."""
        return elementary.exp(x)

    def sum(self, x: Float64Array) -> float:
        """See `RowKernels`."""
        # Along the first axis numpy adds row after row, so that each column is one partial sum.
        return float(_sum_of_lanes(np.add.reduce(_in_lanes(x), axis=0)))

    def log(self, x: float) -> float:
        """See `RowKernels`."""
        return float(elementary.log(np.array([x]))[0])


def _scores(row: Float32Array | Float64Array, best: float, temperature: float) -> Float64Array:
    with np.errstate(over="ignore"):  # a score beyond float64 is -inf: it has no probability
        scores: Float64Array = (row.astype(np.float64) - best) / temperature
    return scores


def _in_lanes(values: Float64Array) -> Float64Array:
    """[ceil(N / 16), 16]: element i in column i % 16; zeros behind the last one."""
    return np.append(values, np.zeros(-len(values) % _LANES)).reshape(-1, _LANES)


def _sum_of_lanes(partials: Float64Array) -> Float64Array:
    """Sums [..., 16] along the last axis by the tree 8 + 8, 4 + 4, 2 + 2, 1 + 1."""
    width = _LANES // 2
    while width:
        partials = partials[..., :width] + partials[..., width : 2 * width]
        width //= 2
    total: Float64Array = partials[..., 0]
    return total
