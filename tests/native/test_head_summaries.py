"""What the head says of its rows is what the row kernels find in them, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from oneglance import _native
from oneglance.sampling.numpy_rows import NumpyRows
from tests.native.attention_oracle import Floats, ints
from tests.native.test_head_top import ISAS, VOCABULARY, Setup


def summarized(
    setup: Setup, rows: list[int], num_ids: int = VOCABULARY
) -> tuple[Floats, NDArray[np.int64], NDArray[np.float64]]:
    logits = np.empty((len(rows), VOCABULARY), dtype=np.float32)
    best = np.full(len(rows), -1, dtype=np.int64)
    log_normalizers = np.full(len(rows), np.inf)
    _native.head_summarized(
        setup.head,
        setup.workspace,
        setup.stream,
        ints(rows),
        logits,
        num_ids,
        best,
        log_normalizers,
    )
    return logits, best, log_normalizers


def check(setup: Setup, rows: list[int], num_ids: int = VOCABULARY) -> None:
    logits, best, log_normalizers = summarized(setup, rows, num_ids)
    np.testing.assert_array_equal(logits, setup.logits(rows))
    for kernels in (NumpyRows(), _native.Rows(setup.runtime.isa)):
        for row, index, log_normalizer in zip(logits, best, log_normalizers, strict=True):
            assert index == kernels.argmax(row[:num_ids])
            np.testing.assert_array_equal(
                log_normalizer, kernels.log_normalizer(row[:num_ids].copy())
            )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize("weights", ["auto", "bf16"])
def test_they_are_those_of_the_row_kernels(isa: str, num_threads: int, weights: str) -> None:
    setup = Setup(isa, num_threads, weights)
    for rows in ([], [0], [11, 3, 3], list(range(70))):
        check(setup, rows)


@pytest.mark.parametrize("num_ids", [1, 31, 32, 33, 255, 256, 257, VOCABULARY - 1])
def test_ids_beyond_the_limit_do_not_count(num_ids: int) -> None:
    for num_threads in (1, 2, 3, 40):
        check(Setup(num_threads=num_threads), [4, 0], num_ids)


@pytest.mark.parametrize("copies", [3, 32, VOCABULARY])
def test_ties_go_to_the_lowest_id(copies: int) -> None:
    for num_threads in (1, 3):
        check(Setup(num_threads=num_threads, copies=copies), [0, 1, 2])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_broken_rows_are_seen(value: float) -> None:
    for num_threads in (1, 2, 3):
        setup = Setup(num_threads=num_threads, weights="f32")
        setup.stream[1, 7] = value
        _, best, log_normalizers = summarized(setup, [0, 1])
        assert best[1] == 0
        assert np.isfinite(log_normalizers[0])
        assert np.isnan(log_normalizers[1])
        check(setup, [0, 1])


@pytest.mark.parametrize("place", [0, 300, 501, 502, 700, VOCABULARY - 1])
def test_one_nan_among_numbers_is_found_wherever_it_is(place: int) -> None:
    # An output of huge weights of both signs overflows to inf - inf; all others stay finite.
    matrix = np.zeros((VOCABULARY, 64), dtype=np.float32)
    matrix[:, 0] = np.linspace(-1, 1, VOCABULARY)
    matrix[place, :2] = [3e38, -3e38]
    for num_threads in (1, 2, 4):
        setup = Setup(num_threads=num_threads)
        packed = _native.pack(matrix.view(np.uint8), "F32", VOCABULARY, 64, 1, "f32")
        norm = np.full(64, 1e3, dtype=np.float32)
        setup.head = _native.Head(norm=norm, matrix=packed, eps=1e-5)
        setup.stream[:] = 1.0
        setup.stream[:, 1] = 0.5
        _, best, log_normalizers = summarized(setup, [0])
        assert best.tolist() == [place]
        assert np.isnan(log_normalizers[0])


def test_what_does_not_fit_is_refused() -> None:
    setup = Setup()
    logits = np.empty((1, VOCABULARY), dtype=np.float32)
    one, two = np.empty(1), np.empty(2)
    ids = np.empty(1, dtype=np.int64)
    arguments = (setup.head, setup.workspace, setup.stream, ints([0]), logits)
    for num_ids in (0, VOCABULARY + 1):
        with pytest.raises(ValueError, match=f"num_ids must be 1 to {VOCABULARY}"):
            _native.head_summarized(*arguments, num_ids, ids, one)
    with pytest.raises(ValueError, match="log_normalizers has length 2"):
        _native.head_summarized(*arguments, 5, ids, two)
    with pytest.raises(ValueError, match="best has length 2"):
        _native.head_summarized(*arguments, 5, np.empty(2, dtype=np.int64), one)
