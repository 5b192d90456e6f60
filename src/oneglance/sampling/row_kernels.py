"""What sampling does with a whole row over the vocabulary, and which implementation does it.

There are two, compiled (`csrc/rows.h`) and numpy (`numpy_rows.py`), and they give the same bits:
every float operation is one IEEE operation, and every sum has one order, given below. So tokens
do not depend on the machine, its instruction set or whether the package could be compiled.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeVar

from oneglance.environment import read_environment
from oneglance.sampling.numpy_rows import NumpyRows
from oneglance.types import Float32Array, Float64Array, IntArray

Row = TypeVar("Row", Float32Array, Float64Array, Float32Array | Float64Array)


class RowKernels(Protocol):
    """Operations on a row [S], C-contiguous, of float32 or float64.

    Where `best` and `temperature` are given, the score of an element x is (x − best) /
    temperature in float64 and its weight is `elementary.exp` of the score; `best` is the largest
    element, finite, and none is NaN. Sums of weights have 16 partial sums, element i in partial
    i % 16 in ascending order of i, which are then added by a fixed tree (8 + 8, 4 + 4, 2 + 2,
    1 + 1). Ties go to the lowest index.
    """

    def argmax(self, row: Float32Array | Float64Array) -> int:
        """Index of the largest element; of the first NaN, if there is one."""
        ...

    def log_normalizer(self, row: Float32Array | Float64Array) -> float:
        """Log of the sum of e^x: best + log(sum of weights at temperature 1).

        NaN if the row has no largest element that is finite.
        """
        ...

    def ranked(self, row: Float32Array | Float64Array, count: int) -> IntArray:
        """Indices of the `count` largest elements, best first; NaN is never among them."""
        ...

    def at_least(
        self, row: Float32Array | Float64Array, best: float, temperature: float, floor: float
    ) -> IntArray:
        """Indices, ascending, of the elements whose score is at least `floor`."""
        ...

    def nucleus(
        self, row: Float32Array | Float64Array, best: float, temperature: float, share: float
    ) -> IntArray:
        """Indices, ascending, of the smallest set of best scores that holds `share` of the mass.

        Weights are added one by one in descending order of score, until they reach `share` times
        the sum of all.
        """
        ...

    def draw(
        self, row: Float32Array | Float64Array, best: float, temperature: float, uniform: float
    ) -> int:
        """Index at which the cumulative weights first exceed `uniform` [0, 1] times their sum.

        Never one of weight 0. The cumulative weights at the ends of blocks of 256 elements are
        the sums so far; within a block the weights are added to them one by one.
        """
        ...

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
        """Indices of the `count` best of score + `gumbel`, best first; score −inf is left out.

        `ids` [S], ascending, are the token ids of the elements; None: their indices are.
        """
        ...

    def gumbel(self, ids: IntArray, seed: int, choice: int, position: int) -> Float64Array:
        """The noise of each token id, as `noise.SeededNoise` defines it."""
        ...

    def exp(self, x: Float64Array) -> Float64Array:
        """`elementary.exp`."""
        ...

    def sum(self, x: Float64Array) -> float:
        """The sum of x [N] in 16 partial sums."""
        ...

    def log(self, x: float) -> float:
        """`elementary.log` of one number."""
        ...


@cache
def row_kernels() -> RowKernels:
    """The compiled kernels where there are any, for the instruction set that was asked for."""
    try:
        native = import_module("oneglance._native")
    except ImportError:  # an installation without a compiler
        return NumpyRows()
    return native_rows(native, read_environment().isa)


def native_rows(native: Any, isa: str | None) -> RowKernels:
    """The kernels of one instruction set of the compiled module.

    A name that it does not know is for the engine to refuse: here every set gives the same bits.
    """
    rows: RowKernels = native.Rows(isa if isa in native.available_isas() else "")
    return rows


def contiguous(row: Row) -> Row:
    """The row as kernels take it: itself, or a copy where its elements are not side by side."""
    return row if row.flags.c_contiguous else row.copy()
