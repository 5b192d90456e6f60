"""Float weights that are kept: exact or rounded once, and products in one fixed order."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance import _native
from tests.native import packed_oracle as oracle
from tests.native.test_matmul import assert_same_bits, random_rows

ISAS = _native.available_isas()
FORMS = ("bf16", "f32")


@pytest.fixture(params=ISAS)
def runtime(request: pytest.FixtureRequest) -> _native.Runtime:
    return _native.Runtime(request.param, 2)


def random_weights(outputs: int, inputs: int) -> oracle.Floats:
    """Of all magnitudes, with both zeros, subnormals and numbers half-way between bfloat16."""
    rng = np.random.default_rng(outputs + inputs)
    weights = rng.normal(size=(outputs, inputs)) * 10.0 ** rng.integers(-6, 4, (outputs, inputs))
    result = weights.astype(np.float32)
    ties = rng.random(result.shape) < 0.2
    result[ties] = ((result[ties].view(np.uint32) & 0xFFFF0000) | 0x8000).view(np.float32)
    result[0, :4] = [0.0, -0.0, 1e-40, -1e-45]
    return result


def stored(kind: str, weights: oracle.Floats) -> tuple[oracle.Raw, oracle.Floats]:
    """Bytes of the file, and what they mean; halves have a smaller range."""
    return oracle.store_floats(kind, np.clip(weights, -6e4, 6e4) if kind == "F16" else weights)


def kept(form: str, meant: oracle.Floats) -> oracle.Floats:
    """What is to become of the weights, by the `gguf` package's rounding."""
    if form == "f32":
        return meant
    return oracle.dequantize("BF16", oracle.quantize("BF16", meant)).reshape(meant.shape)


def product(weights: oracle.Floats, x: oracle.Floats) -> oracle.Floats:
    """[R, N]: for k in ascending order one multiplication and one addition."""
    acc = np.zeros((len(x), len(weights)), dtype=np.float32)
    for k in range(x.shape[1]):
        acc = acc + weights[None, :, k] * x[:, k, None]
    return acc


@pytest.mark.parametrize("kind", oracle.FLOAT_TYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 32), (32, 288), (75, 576)])
def test_weights_are_kept(
    kind: str, form: str, outputs: int, inputs: int, runtime: _native.Runtime
) -> None:
    raw, meant = stored(kind, random_weights(outputs, inputs))
    packed = _native.pack(raw, kind, outputs, inputs, 2, form)
    assert packed.form == form
    assert packed.num_bytes == -(-outputs // 32) * 32 * inputs * (2 if form == "bf16" else 4)
    assert_same_bits(_native.unpack(runtime, packed), kept(form, meant))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 12, 47, 48, 49, 97])
def test_product_has_the_specified_bits(form: str, rows: int, runtime: _native.Runtime) -> None:
    weights = random_weights(75, 160)
    x = random_rows(rows, 160, seed=rows)
    packed = _native.pack(weights.view(np.uint8), "F32", 75, 160, 1, form)
    assert_same_bits(_native.matmul(runtime, packed, x), product(kept(form, weights), x))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
def test_threads_do_not_change_bits(form: str, num_threads: int) -> None:
    weights, x = random_weights(200, 1536), random_rows(7, 1536, seed=6)
    packed = _native.pack(weights.view(np.uint8), "F32", 200, 1536, num_threads, form)
    expected = product(kept(form, weights), x)
    for isa in ISAS:
        threaded = _native.Runtime(isa, num_threads)
        assert_same_bits(_native.matmul(threaded, packed, x), expected)


@pytest.mark.parametrize("form", FORMS)
def test_quantised_weights_keep_the_files_bits(form: str, runtime: _native.Runtime) -> None:
    for kind in oracle.GGML_TYPES:
        raw = oracle.random_blocks(kind, 40, 256, seed=1)
        packed = _native.pack(raw, kind, 40, 256, 1, form)
        assert packed.form == _native.pack(raw, kind, 40, 256, 1).form
        np.testing.assert_array_equal(_native.unpack(runtime, packed), oracle.dequantize(kind, raw))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", FORMS)
def test_weights_that_are_not_finite_are_refused(form: str, bad: float) -> None:
    weights = np.zeros((40, 64), dtype=np.float32)
    weights[39, 63] = bad
    with pytest.raises(ValueError, match="a weight is not finite"):
        _native.pack(weights.view(np.uint8), "F32", 40, 64, 2, form)


def test_the_largest_floats_are_not_made_infinite(runtime: _native.Runtime) -> None:
    weights = np.full((1, 32), np.finfo(np.float32).max, dtype=np.float32)
    exact = _native.pack(weights.view(np.uint8), "F32", 1, 32, 1, "f32")
    assert_same_bits(_native.unpack(runtime, exact), weights)
    with pytest.raises(ValueError, match="not finite, or not in bfloat16"):
        _native.pack(weights.view(np.uint8), "F32", 1, 32, 1, "bf16")


def test_broken_activations_are_seen(runtime: _native.Runtime) -> None:
    packed = _native.pack(random_weights(40, 64).view(np.uint8), "F32", 40, 64, 1, "f32")
    x = random_rows(2, 64, seed=5)
    x[1, 33] = np.nan
    result = _native.matmul(runtime, packed, x)
    assert np.isfinite(result[0]).all()
    assert np.isnan(result[1]).all()


def test_forms_and_uses_that_do_not_exist_are_refused(runtime: _native.Runtime) -> None:
    weights = np.zeros((40, 64), dtype=np.float32)
    with pytest.raises(ValueError, match="must be auto, bf16 or f32, not f16"):
        _native.pack(weights.view(np.uint8), "F32", 40, 64, 1, "f16")
    with pytest.raises(ValueError, match="rows of 40 inputs are not a multiple of 32"):
        _native.pack(weights.view(np.uint8), "F32", 64, 40, 1, "f32")
    packed = _native.pack(weights.view(np.uint8), "F32", 40, 64, 1, "f32")
    quantized = _native.quantize_rows(runtime, np.zeros((2, 64), dtype=np.float32))
    y = np.zeros((2, 40), dtype=np.float32)
    with pytest.raises(ValueError, match="not multiplied with quantised rows"):
        _native.matmul_tiles(runtime, packed, quantized, y, 0, 1)
    with pytest.raises(ValueError, match="not multiplied with quantised rows"):
        _native.time_sweep(runtime, [packed], quantized)
