"""The facts about numpy and BLAS on which the reference engine's contract C2 rests."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from oneglance.engine.arithmetic import project, rms_norm, softmax, swiglu
from oneglance.types import Float32Array

SIZES = [1, 7, 8, 64, 129, 576, 1536, 8960]


def _random(shape: tuple[int, ...], seed: int = 0) -> Float32Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _shifted(array: Float32Array, offset: int) -> Float32Array:
    """A copy that starts `offset` floats behind an allocation's start."""
    buffer = np.empty(array.size + offset, dtype=np.float32)
    buffer[offset:] = array.ravel()
    return buffer[offset:].reshape(array.shape)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", [0, 1, 3, 5])
def test_elementwise_and_norms_are_the_same_for_a_row_alone(size: int, offset: int) -> None:
    rows, gate, weight = _random((9, size)), _random((9, size), 1) * 20, _random((size,), 2)
    normed, product, probs = rms_norm(rows, weight, 1e-5), swiglu(gate, rows), softmax(gate)
    for row in range(9):
        one, one_gate = _shifted(rows[row : row + 1], offset), _shifted(gate[row], offset)
        assert np.array_equal(rms_norm(one, weight, 1e-5)[0], normed[row])
        assert np.array_equal(swiglu(one_gate, one[0]), product[row])
        assert np.array_equal(softmax(one_gate), probs[row])


@pytest.mark.parametrize("inputs", [1, 7, 64, 576, 1536])
def test_projection_is_the_same_for_a_row_alone(inputs: int) -> None:
    matrix, rows = _random((1003, inputs)), _random((9, inputs), 1)
    with threadpool_limits(limits=1, user_api="blas"):
        together = project(matrix, rows)
        for row in range(9):
            for offset in (0, 1, 3):
                one = _shifted(rows[row : row + 1], offset)
                alone = project(_shifted(matrix, offset), one)
                assert np.array_equal(alone[0], together[row])
    assert_allclose(
        together, rows.astype(np.float64) @ matrix.T, rtol=1e-3, atol=1e-4 * inputs**0.5
    )


@pytest.mark.parametrize("length", [1, 2, 31, 200])
def test_attention_products_do_not_depend_on_the_buffer(length: int) -> None:
    queries, keys = _random((3, 3, 64)), _random((3, length, 64), 1)
    with threadpool_limits(limits=1, user_api="blas"):
        scores = queries @ keys.swapaxes(1, 2)
        mixed = scores @ keys
        for extra in (1, 5, 64):
            buffer = np.empty((3, length + extra, 64), dtype=np.float32)
            buffer[:, :length] = keys
            view = _shifted(buffer, extra % 4)[:, :length]
            assert np.array_equal(_shifted(queries, 1) @ view.swapaxes(1, 2), scores)
            assert np.array_equal(scores @ view, mixed)
