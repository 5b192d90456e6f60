"""The head that returns only the best tokens: the first of the sorted row, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oneglance import _native
from tests.native.attention_oracle import Floats, ints, make_workspace

ISAS = _native.available_isas()
HIDDEN, VOCABULARY = 64, 1_003


def sorted_rows(logits: Floats, num_ids: int, num_top: int) -> tuple[Any, Floats]:
    """By definition: NaN first, then by logit, then by id."""
    wide = np.clip(logits[:, :num_ids].astype(np.float64), -1e300, 1e300)
    keys = np.where(np.isnan(wide), -np.inf, -wide)
    best = np.argsort(keys, axis=1, kind="stable")[:, :num_top]
    return best, np.take_along_axis(logits, best, axis=1)


class Setup:
    """A random head and rows; `copies` of each output make ties."""

    def __init__(
        self,
        isa: str = ISAS[0],
        num_threads: int = 2,
        weights: str = "auto",
        copies: int = 1,
        planes: int = 1,
    ) -> None:
        rng = np.random.default_rng(3)
        matrix = rng.standard_normal((-(-VOCABULARY // copies), HIDDEN), dtype=np.float32)
        matrix = np.ascontiguousarray(np.tile(matrix, (copies, 1))[:VOCABULARY])
        self.runtime = _native.Runtime(isa, num_threads)
        self.workspace = make_workspace(self.runtime, 16, 8)
        data = matrix.view(np.uint8)
        packed = _native.pack(data, "F32", VOCABULARY, HIDDEN, 1, weights, planes)
        norm = np.ones(HIDDEN, dtype=np.float32)
        self.head = _native.Head(norm=norm, matrix=packed, eps=1e-5)
        self.stream = rng.standard_normal((70, HIDDEN), dtype=np.float32)

    def logits(self, rows: list[int]) -> Floats:
        logits = np.empty((len(rows), VOCABULARY), dtype=np.float32)
        _native.head(self.head, self.workspace, self.stream, ints(rows), logits)
        return logits

    def top(self, rows: list[int], num_top: int, num_ids: int = VOCABULARY) -> tuple[Any, Floats]:
        ids: NDArray[np.int64] = np.full((len(rows), num_top), -1, dtype=np.int64)
        logits = np.full(ids.shape, np.nan, dtype=np.float32)
        _native.head_top(self.head, self.workspace, self.stream, ints(rows), num_ids, ids, logits)
        return ids, logits

    def check(self, rows: list[int], num_top: int, num_ids: int = VOCABULARY) -> None:
        expected = sorted_rows(self.logits(rows), num_ids, num_top)
        for actual, wanted in zip(self.top(rows, num_top, num_ids), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize(("weights", "planes"), [("auto", 1), ("auto", 2), ("bf16", 1), ("f32", 1)])
def test_it_is_the_beginning_of_the_sorted_row(
    isa: str, num_threads: int, weights: str, planes: int
) -> None:
    setup = Setup(isa, num_threads, weights, planes=planes)
    for rows in ([], [0], [11, 3, 3], list(range(70))):
        for num_top in (1, 2, 40):
            setup.check(rows, num_top)


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("copies", [3, 32, VOCABULARY])
def test_ties_go_to_the_lowest_id(num_threads: int, copies: int) -> None:
    setup = Setup(num_threads=num_threads, copies=copies)
    for num_top in (1, 5, 64):
        setup.check([0, 1, 2], num_top)
    if copies == VOCABULARY:
        assert setup.top([0], 3)[0].tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("num_ids", [1, 31, 32, 33, 300, VOCABULARY - 1, VOCABULARY])
def test_ids_beyond_the_limit_never_come(num_ids: int) -> None:
    for num_threads in (1, 2, 3):
        setup = Setup(num_threads=num_threads)
        for num_top in {1, min(7, num_ids), num_ids}:
            setup.check([4, 0], num_top, num_ids)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_broken_rows_are_seen_in_their_best_token(value: float) -> None:
    setup = Setup(weights="f32")
    setup.stream[1, 7] = value
    ids, logits = setup.top([0, 1], 2)
    assert np.isfinite(logits[0]).all()
    assert np.isnan(logits[1]).all()
    assert ids[1].tolist() == [0, 1]


def test_one_nan_among_numbers_comes_first() -> None:
    # An output of huge weights of both signs overflows to inf - inf; all others stay finite.
    matrix = np.zeros((VOCABULARY, HIDDEN), dtype=np.float32)
    matrix[:, 0] = np.linspace(-1, 1, VOCABULARY)
    matrix[700, :2] = [3e38, -3e38]
    for num_threads in (1, 2, 4):
        setup = Setup(num_threads=num_threads)
        packed = _native.pack(matrix.view(np.uint8), "F32", VOCABULARY, HIDDEN, 1, "f32")
        norm = np.full(HIDDEN, 1e3, dtype=np.float32)
        setup.head = _native.Head(norm=norm, matrix=packed, eps=1e-5)
        setup.stream[:] = 1.0
        setup.stream[:, 1] = 0.5
        row = setup.logits([0])
        assert np.isnan(row).sum() + np.isinf(row).sum() == 1
        setup.check([0], 3)
        assert setup.top([0], 1)[0].item() == np.argmax(row)


def test_what_cannot_be_chosen_is_refused() -> None:
    setup = Setup()
    for num_top, num_ids in ((0, 5), (6, 5), (1, 0), (1, VOCABULARY + 1)):
        with pytest.raises(ValueError, match=f"{num_top} of {num_ids} tokens cannot be chosen"):
            setup.top([0], num_top, num_ids)
    for row in (-1, 70):
        with pytest.raises(IndexError, match=f"row {row} does not exist"):
            setup.top([row], 1)
    ids, logits = np.zeros((1, 2), dtype=np.int64), np.zeros((1, 3), dtype=np.float32)
    with pytest.raises(ValueError, match="logits has length 3 instead of 2"):
        _native.head_top(setup.head, setup.workspace, setup.stream, ints([0]), 5, ids, logits)
