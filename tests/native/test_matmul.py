"""The packed product has exactly the specified bits: any form, row count, split and CPU."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance import _native
from tests.native import packed_oracle as oracle

ISAS = _native.available_isas()


@pytest.fixture(params=ISAS)
def runtime(request: pytest.FixtureRequest) -> _native.Runtime:
    return _native.Runtime(request.param, 2)


def random_rows(rows: int, inputs: int, seed: int) -> oracle.Floats:
    """Activations with outliers and with groups that are all zero."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs)).astype(np.float32)
    x[rng.random(x.shape) < 0.01] *= 100
    x.reshape(rows, -1, 32)[rng.random((rows, inputs // 32)) < 0.1] = 0
    return x


def assert_same_bits(actual: oracle.Floats, expected: oracle.Floats) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", oracle.GGML_TYPES)
@pytest.mark.parametrize("rows", [*range(1, 18), 24, 25, 32, 33, 49, 97])
def test_product_has_the_specified_bits(kind: str, rows: int, runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks(kind, 75, 512, seed=rows)
    x = random_rows(rows, 512, seed=rows)
    packed = _native.pack(raw, kind, 75, 512, 1)
    expected = oracle.matmul(oracle.take_apart(kind, raw), x)
    assert_same_bits(_native.matmul(runtime, packed, x), expected)


WIDTHS = [
    (kind, inputs)
    for kind in oracle.GGML_TYPES
    for inputs in (32, 96, 256, 576, 8960)
    if inputs % oracle.block_size(kind)[0] == 0
]


@pytest.mark.parametrize(("kind", "inputs"), WIDTHS)
def test_any_width(kind: str, inputs: int, runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks(kind, 33, inputs, seed=inputs)
    x = random_rows(5, inputs, seed=inputs)
    packed = _native.pack(raw, kind, 33, inputs, 1)
    expected = oracle.matmul(oracle.take_apart(kind, raw), x)
    assert_same_bits(_native.matmul(runtime, packed, x), expected)


@pytest.mark.parametrize("kind", oracle.FLOAT_TYPES)
def test_float_weights(kind: str, runtime: _native.Runtime) -> None:
    weights = np.random.default_rng(1).normal(size=(40, 160)).astype(np.float32)
    raw, meant = oracle.store_floats(kind, weights)
    x = random_rows(3, 160, seed=8)
    packed = _native.pack(raw, kind, 40, 160, 1)
    expected = oracle.matmul(oracle.quantize_weights(meant), x)
    assert_same_bits(_native.matmul(runtime, packed, x), expected)


EXTREME_BYTES = {"smallest": 0x00, "largest": 0xFF, "most negative byte": 0x80, "ones": 0x7F}


@pytest.mark.parametrize("kind", oracle.GGML_TYPES)
@pytest.mark.parametrize("byte", EXTREME_BYTES.values(), ids=EXTREME_BYTES.keys())
def test_extreme_values_do_not_saturate(kind: str, byte: int, runtime: _native.Runtime) -> None:
    """All weights and all activations at the ends of their ranges, in all combinations of sign."""
    _, num_bytes = oracle.block_size(kind)
    blocks = np.full((34, 512 // oracle.block_size(kind)[0], num_bytes), byte, dtype=np.uint8)
    for field in oracle.HALF_FIELDS[kind]:
        oracle.set_half(blocks, field, 1.0)
    raw = blocks.reshape(34, -1)
    parts = oracle.take_apart(kind, raw)
    alternating = np.tile([1.0, -1.0], 256)
    x = np.array([[3.0] * 512, [-3.0] * 512, alternating, -alternating], dtype=np.float32)
    assert set(np.unique(oracle.quantize_rows(x)[0])) == {-127, 127}
    packed = _native.pack(raw, kind, 34, 512, 1)
    assert_same_bits(_native.matmul(runtime, packed, x), oracle.matmul(parts, x))


def test_zero_activations_give_zero(runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks("Q4_1", 40, 64, seed=0)
    packed = _native.pack(raw, "Q4_1", 40, 64, 1)
    result = _native.matmul(runtime, packed, np.zeros((2, 64), dtype=np.float32))
    np.testing.assert_array_equal(result, 0)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K", "Q5_1", "Q6_K", "Q8_0"])
def test_a_row_alone_is_the_row_in_a_batch(kind: str, runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks(kind, 96, 768, seed=4)
    packed = _native.pack(raw, kind, 96, 768, 1)
    x = random_rows(21, 768, seed=4)
    whole = _native.matmul(runtime, packed, x)
    for r in range(21):
        assert_same_bits(_native.matmul(runtime, packed, x[r : r + 1]), whole[r : r + 1])


@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
def test_threads_do_not_change_bits(num_threads: int) -> None:
    raw = oracle.random_blocks("Q4_K", 200, 512, seed=6)
    packed = _native.pack(raw, "Q4_K", 200, 512, 1)
    x = random_rows(7, 512, seed=6)
    expected = oracle.matmul(oracle.take_apart("Q4_K", raw), x)
    for isa in ISAS:
        threaded = _native.Runtime(isa, num_threads)
        assert_same_bits(_native.matmul(threaded, packed, x), expected)


def test_any_split_into_tiles_and_only_those(runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks("Q5_0", 110, 64, seed=7)
    packed = _native.pack(raw, "Q5_0", 110, 64, 1)
    x = random_rows(3, 64, seed=7)
    whole = _native.matmul(runtime, packed, x)
    quantized = _native.quantize_rows(runtime, x)
    for begin, end in [(0, 4), (0, 1), (1, 3), (3, 4), (2, 2)]:
        y = np.full((3, 110), np.nan, dtype=np.float32)
        _native.matmul_tiles(runtime, packed, quantized, y, begin, end)
        written = slice(32 * begin, min(32 * end, 110))
        assert_same_bits(np.ascontiguousarray(y[:, written]), whole[:, written].copy())
        y[:, written] = np.nan
        assert np.isnan(y).all()


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_quantised_activations(rows: int, runtime: _native.Runtime) -> None:
    x = random_rows(rows, 256, seed=rows)
    x[0, :32] = np.linspace(-127, 127, 32)
    x[0, 32:64] = [127.0] + [0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -126.5] * 4 + [3.0] * 3
    values, scales, sums = oracle.quantize_rows(x)
    quantized = _native.quantize_rows(runtime, x)
    np.testing.assert_array_equal(quantized.values, values)
    np.testing.assert_array_equal(quantized.scales, scales)
    np.testing.assert_array_equal(quantized.sums, sums)
    assert quantized.values.min() >= -127


@pytest.mark.parametrize("magnitude", [1e-45, 1e-40, 3e-37, 4e-37, 1e-30, 1e30, 3.4e38])
def test_activations_of_any_magnitude(magnitude: float, runtime: _native.Runtime) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (2, 64)).astype(np.float32)
    x = (x * np.float32(magnitude)).astype(np.float32)
    values, scales, sums = oracle.quantize_rows(x)
    quantized = _native.quantize_rows(runtime, x)
    np.testing.assert_array_equal(quantized.values, values)
    np.testing.assert_array_equal(quantized.scales, scales)
    np.testing.assert_array_equal(quantized.sums, sums)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_broken_activations_are_seen_in_every_output(bad: float, runtime: _native.Runtime) -> None:
    for kind in oracle.GGML_TYPES:
        raw = oracle.random_blocks(kind, 40, 512, seed=5)
        x = random_rows(2, 512, seed=5)
        x[1, 77] = bad
        result = _native.matmul(runtime, _native.pack(raw, kind, 40, 512, 1), x)
        assert np.isfinite(result[0]).all()
        assert np.isnan(result[1]).all()


def test_wrong_shapes_are_refused(runtime: _native.Runtime) -> None:
    packed = _native.pack(oracle.random_blocks("Q8_0", 40, 64, seed=0), "Q8_0", 40, 64, 1)
    narrow = np.zeros((2, 32), dtype=np.float32)
    with pytest.raises(ValueError, match="rows of 32 values"):
        _native.matmul(runtime, packed, narrow)
    with pytest.raises(ValueError, match="multiple of 32"):
        _native.quantize_rows(runtime, np.zeros((2, 33), dtype=np.float32))
    quantized = _native.quantize_rows(runtime, np.zeros((2, 64), dtype=np.float32))
    y = np.zeros((2, 40), dtype=np.float32)
    for begin, end in [(-1, 1), (1, 0), (0, 3)]:
        with pytest.raises(ValueError, match="tiles out of range"):
            _native.matmul_tiles(runtime, packed, quantized, y, begin, end)
    with pytest.raises(ValueError, match="shape"):
        _native.matmul_tiles(runtime, packed, quantized, y[:1], 0, 1)
    with pytest.raises(ValueError, match="differ"):
        _native.matmul_tiles(runtime, packed, _native.quantize_rows(runtime, narrow), y, 0, 1)
