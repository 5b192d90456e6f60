"""Row operations: the kernels of every instruction set give the bits of the numpy form."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oneglance import _native
from oneglance.sampling.numpy_rows import NumpyRows
from oneglance.types import Float32Array, Float64Array

NUMPY = NumpyRows()
SIZES = (1, 16, 17, 65, 257, 3333)
TEMPERATURES = (1.0, 0.8, 5e-324, 1e308)
Row = Float32Array | Float64Array


@pytest.fixture(params=_native.available_isas())
def kernels(request: pytest.FixtureRequest) -> _native.Rows:
    rows = _native.Rows(request.param)
    assert rows.isa == request.param
    return rows


def rows(size: int) -> Iterator[Row]:
    """Spread out, flat, with ties, with forbidden tokens, huge and tiny; in both types.

    Each begins in the middle of a larger array, as the rows of a pass do.
    """
    rng = np.random.default_rng(size)
    normal = rng.normal(size=size + 1)
    with_gaps = np.where(rng.random(size + 1) < 0.3, -np.inf, normal)
    with_gaps[rng.integers(1, size + 1)] = 0.5
    with np.errstate(over="ignore"):
        for values in (
            3 * normal,
            1e-3 * normal,
            np.round(2 * normal),
            np.zeros(size + 1),
            with_gaps,
            1e30 * normal,
            1e-40 * normal,
            np.where(normal > 1, 20.0, 0.0) + 5 * normal,
        ):
            yield values.astype(np.float32)[1:]
            yield values[1:]
    yield 1e306 * normal[1:]


def best_of(row: Row) -> float:
    return float(row.max())


@pytest.mark.parametrize("size", SIZES)
def test_argmax_and_normalizer(kernels: _native.Rows, size: int) -> None:
    for row in rows(size):
        assert kernels.argmax(row) == NUMPY.argmax(row) == int(np.argmax(row))
        assert kernels.log_normalizer(row) == NUMPY.log_normalizer(row)


@pytest.mark.parametrize("size", [1, 17, 64, 200])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_without_meaning_are_found(kernels: _native.Rows, size: int, bad: float) -> None:
    for place in {0, size // 2, size - 1}:
        normal = np.random.default_rng(place).normal(size=size)
        normal[place:] = bad
        for row in (normal, normal.astype(np.float32)):
            assert kernels.argmax(row) == int(np.argmax(row))
            expected = NUMPY.log_normalizer(row)
            np.testing.assert_array_equal(kernels.log_normalizer(row), expected)
            assert np.isnan(expected) or bad == -np.inf


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 3, 40, 5000])
def test_ranked(kernels: _native.Rows, size: int, count: int) -> None:
    for row in rows(size):
        expected = np.argsort(-row, kind="stable")[:count]
        np.testing.assert_array_equal(NUMPY.ranked(row, count), expected)
        np.testing.assert_array_equal(kernels.ranked(row, count), expected)


def test_ranked_leaves_out_what_is_no_number(kernels: _native.Rows) -> None:
    row = np.array([np.nan, 1.0, np.nan, 2.0, -np.inf])
    for rows_ in (kernels, NUMPY):
        np.testing.assert_array_equal(rows_.ranked(row, 2), [3, 1])
        np.testing.assert_array_equal(rows_.ranked(row, 5), [3, 1, 4])


@pytest.mark.parametrize("size", SIZES)
def test_truncation(kernels: _native.Rows, size: int) -> None:
    for row in rows(size):
        for temperature in TEMPERATURES:
            law = (row, best_of(row), temperature)
            for floor in (0.0, -1e-9, -1.0, -30.0, -1e300, -np.inf):
                found = kernels.at_least(*law, floor)
                np.testing.assert_array_equal(found, NUMPY.at_least(*law, floor))
            for share in (1e-300, 0.3, 0.95, 1 - 1e-12, np.nextafter(1, 0)):
                found = kernels.nucleus(*law, share)
                np.testing.assert_array_equal(found, NUMPY.nucleus(*law, share))


@pytest.mark.parametrize("temperature", [0.8, 1.0, 1e-4])
def test_a_nucleus_that_rounding_decides(kernels: _native.Rows, temperature: float) -> None:
    """Where a prefix holds the share but for a last bit, bounds of the sum do not decide."""
    row = (4 * np.random.default_rng(7).normal(size=2000)).astype(np.float32)
    law = (row, best_of(row), temperature)
    weights = NUMPY.exp((np.sort(row)[::-1].astype(np.float64) - best_of(row)) / temperature)
    total = NUMPY.sum(NUMPY.exp((row.astype(np.float64) - best_of(row)) / temperature))
    lengths = set()
    for share in (np.cumsum(weights)[[0, 1, 5, 40]] / total).tolist():
        for near in (np.nextafter(share, 0), share, np.nextafter(share, 1)):
            for nearby in (near, near * (1 - 1e-6), near * (1 + 1e-6), near * (1 - 1e-4)):
                if not 0 < nearby < 1:
                    continue
                found = kernels.nucleus(*law, nearby)
                np.testing.assert_array_equal(found, NUMPY.nucleus(*law, nearby))
                lengths.add(len(found))
    assert len(lengths) >= (7 if temperature > 1e-3 else 1)


@pytest.mark.parametrize("size", SIZES)
def test_draw(kernels: _native.Rows, size: int) -> None:
    uniforms = [0.0, 1.0, np.nextafter(1, 0), *np.random.default_rng(size).random(5)]
    for row in rows(size):
        for temperature in TEMPERATURES:
            law = (row, best_of(row), temperature)
            for uniform in uniforms:
                assert kernels.draw(*law, uniform) == NUMPY.draw(*law, uniform)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 5])
def test_best_with_noise(kernels: _native.Rows, size: int, count: int) -> None:
    ids = np.cumsum(np.random.default_rng(size).integers(1, 9, size=size))
    for row in rows(size):
        for temperature in TEMPERATURES:
            law = (row, best_of(row), temperature)
            for tokens in (None, ids):
                key = (2**64 - 1, 3, size)
                found = kernels.best_with_noise(*law, tokens, *key, count)
                expected = NUMPY.best_with_noise(*law, tokens, *key, count)
                np.testing.assert_array_equal(found, expected)


def test_noise(kernels: _native.Rows) -> None:
    for ids in (np.arange(4099), np.array([7, 0, 10_000, 10_001, 3]), np.array([], np.int64)):
        for key in ((0, 0, 0), (2**64 - 1, 2**32 - 1, 2**40)):
            assert_same_bits(kernels.gumbel(ids, *key), NUMPY.gumbel(ids, *key))


def test_elementary_functions(kernels: _native.Rows) -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 16, 31, 100_003):
        x = np.append(-(10.0 ** rng.uniform(-20, 3, size)), [-708.0, -708.5, -np.inf, 0.0, -0.0])
        assert_same_bits(kernels.exp(x), NUMPY.exp(x))
        assert_same_bits(np.array(kernels.sum(x[:size])), np.array(NUMPY.sum(x[:size])))
    for value in (*2.0 ** rng.uniform(-1022, 1023, 3000), *rng.random(3000), 1.0, 1 - 2.0**-53):
        assert kernels.log(value) == NUMPY.log(value)


def assert_same_bits(found: Float64Array, expected: Float64Array) -> None:
    np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))


def test_wrong_arguments_are_refused() -> None:
    kernels = _native.Rows("portable")
    row = np.zeros(8)
    with pytest.raises(TypeError, match="float32 or float64"):
        kernels.argmax(np.zeros(8, dtype=np.int32))
    with pytest.raises(ValueError, match="must not be empty"):
        kernels.argmax(row[:0])
    with pytest.raises(TypeError):
        kernels.argmax(np.zeros((2, 8)))
    with pytest.raises(TypeError):
        kernels.argmax(row[::2])
    with pytest.raises(ValueError, match="count must be at least 1"):
        kernels.ranked(row, 0)
    with pytest.raises(ValueError, match="count must be at least 1"):
        kernels.best_with_noise(row, 0.0, 1.0, None, 1, 0, 0, 0)
    with pytest.raises(ValueError, match="differ in length"):
        kernels.best_with_noise(row, 0.0, 1.0, np.arange(7), 1, 0, 0, 1)
    with pytest.raises(TypeError):
        kernels.exp(np.zeros(3, dtype=np.float32))
    with pytest.raises(ValueError, match="no kernels called 'sse9'"):
        _native.Rows("sse9")
