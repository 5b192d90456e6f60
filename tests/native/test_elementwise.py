"""Exponential, norm, rotation and activation: close to the truth, and the specified bits."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance import _native
from tests.native.attention_oracle import (
    Floats,
    assert_same_bits,
    exp,
    ints,
    sum_in_sixteen,
)

SIZES = (1, 15, 16, 17, 64, 100, 576, 1536)


@pytest.fixture(params=_native.available_isas())
def runtime(request: pytest.FixtureRequest) -> _native.Runtime:
    return _native.Runtime(request.param, 2)


def random(shape: tuple[int, ...], seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(("low", "high"), [(-87.33, 88.37), (-1.0, 1.0), (-1e-3, 1e-3)])
def test_exp_is_within_one_unit_in_the_last_place(low: float, high: float) -> None:
    x = np.linspace(low, high, 200_001).astype(np.float32)
    truth = np.exp(x.astype(np.float64))
    units = np.abs(_native.exp(x) - truth) / np.spacing(truth.astype(np.float32))
    assert units.max() < 1.0


def test_exp_at_its_ends() -> None:
    x = np.array([-np.inf, -1e30, -88.0, -0.0, 0.0, 89.0, 1e30, np.inf], dtype=np.float32)
    expected = np.array([0, 0, 0, 1, 1, np.inf, np.inf, np.inf], dtype=np.float32)
    assert_same_bits(_native.exp(x), expected)
    assert np.isnan(_native.exp(np.array([np.nan], dtype=np.float32))[0])


def test_exp_never_falls() -> None:
    y = _native.exp(np.linspace(-87.4, 88.4, 500_001).astype(np.float32))
    assert np.all(y[1:] >= y[:-1])


@pytest.mark.parametrize("size", SIZES)
def test_rms_norm(runtime: _native.Runtime, size: int) -> None:
    x, weight = random((5, size)) * 3, random((size,), seed=1)
    y = _native.rms_norm(runtime, x, weight, 1e-5)
    mean = sum_in_sixteen(x * x) / np.float32(size)
    scale = np.float32(1) / np.sqrt(mean + np.float32(1e-5))
    assert_same_bits(y, (x * scale[:, None]) * weight)
    wide = x.astype(np.float64)
    truth = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(y, truth, rtol=1e-6)


def test_norm_of_a_row_does_not_depend_on_the_others(runtime: _native.Runtime) -> None:
    x, weight = random((64, 577)), random((577,), seed=1)
    y = _native.rms_norm(runtime, x, weight, 1e-6)
    for row in range(64):
        alone = _native.rms_norm(runtime, x[row : row + 1].copy(), weight, 1e-6)
        assert_same_bits(alone, y[row : row + 1])


@pytest.mark.parametrize("head_dim", [16, 64, 80, 128, 256])
def test_rope(runtime: _native.Runtime, head_dim: int) -> None:
    heads = random((7, 3, head_dim))
    angles = np.random.default_rng(1).uniform(0, 6, (100, head_dim // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    positions = ints([0, 99, 5, 5, 17, 1, 64])
    rotated = _native.rope(runtime, heads, positions, cos, sin)
    first, second = np.split(heads, 2, axis=2)
    c, s = cos[positions][:, None], sin[positions][:, None]
    expected = np.concatenate([first * c - second * s, second * c + first * s], axis=2)
    assert_same_bits(rotated, expected)


@pytest.mark.parametrize("size", SIZES)
def test_swiglu(runtime: _native.Runtime, size: int) -> None:
    gate, up = random((3, size)) * 20, random((3, size), seed=1)
    y = _native.swiglu(runtime, gate, up)
    assert_same_bits(y, (gate / (np.float32(1) + exp(np.float32(0) - gate))) * up)
    wide = gate.astype(np.float64)
    np.testing.assert_allclose(y, wide / (1 + np.exp(-wide)) * up, rtol=1e-6)


def test_swiglu_far_from_zero(runtime: _native.Runtime) -> None:
    gate = np.array([[-3e38, -200.0, -88.5, 88.5, 200.0, 3e38]], dtype=np.float32)
    y = _native.swiglu(runtime, gate, np.ones_like(gate))
    np.testing.assert_array_equal(y[0, :3], 0.0)
    np.testing.assert_array_equal(y[0, 3:], gate[0, 3:])


def test_wrong_shapes_are_refused() -> None:
    runtime = _native.Runtime("portable", 1)
    table = random((8, 8))
    with pytest.raises(ValueError, match="weight has length 5 instead of 6"):
        _native.rms_norm(runtime, random((2, 6)), random((5,)), 1e-5)
    with pytest.raises(ValueError, match="2 dimensions"):
        _native.rms_norm(runtime, random((6,)), random((6,)), 1e-5)
    with pytest.raises(ValueError, match="at least one column"):
        _native.rms_norm(runtime, random((2, 0)), random((0,)), 1e-5)
    with pytest.raises(ValueError, match="up has length"):
        _native.swiglu(runtime, random((2, 6)), random((2, 5)))
    with pytest.raises(ValueError, match="another head_dim"):
        _native.rope(runtime, random((2, 1, 32)), ints([0, 1]), table, table)
    for position in (-1, 8):
        with pytest.raises(IndexError, match=f"position {position} lies outside"):
            _native.rope(runtime, random((2, 1, 16)), ints([0, position]), table, table)
    with pytest.raises(ValueError, match="positions has length"):
        _native.rope(runtime, random((2, 1, 16)), ints([0]), table, table)
    with pytest.raises(TypeError):
        _native.exp(np.zeros(3))  # type: ignore[arg-type]
