"""Fewer bits a weight: near the best that groups can have, and exact where nothing is lost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize as gguf_dequantize
from gguf.quants import quantize as gguf_quantize
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.requantize import HIGHEST, LowBitType, requantize
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array

TYPES: tuple[LowBitType, ...] = ("Q4_1", "Q5_1")


BLOCK_BYTES = {"Q5_K": 176, "Q6_K": 210}
"""Types that are read only: bytes per block of 256 weights."""


def tensor(values: NDArray[np.generic]) -> Tensor:
    return Tensor("x", values.shape, "F32", values.astype(np.float32))


def squared_error(found: Float32Array, wanted: Float32Array) -> NDArray[np.float64]:
    """[G] of groups of 32."""
    differences = (found.astype(np.float64) - wanted).reshape(-1, 32)
    return np.asarray(np.sum(differences**2, axis=1))


def stored(values: Float32Array, kind: str) -> Tensor:
    """As a file has it."""
    if kind in ("F32", "F16"):
        data = values.astype(np.float32 if kind == "F32" else np.float16)
    else:
        data = gguf_quantize(values, GGMLQuantizationType[kind])
    if kind == "BF16":
        data = data.view(np.uint16).reshape(values.shape)
    return Tensor("x", values.shape, kind, data)


@pytest.mark.parametrize("quantization", TYPES)
def test_the_bytes_are_those_that_the_gguf_package_reads(quantization: LowBitType) -> None:
    values = np.random.default_rng(0).standard_normal((3, 96)).astype(np.float32)
    found = requantize(tensor(values), quantization)
    kind = GGMLQuantizationType[quantization]
    np.testing.assert_array_equal(found.dequantize(), gguf_dequantize(found.data, kind))
    assert (found.shape, found.quantization) == ((3, 96), quantization)


@pytest.mark.parametrize("quantization", TYPES)
def test_what_is_of_the_type_already_comes_back_bit_by_bit(quantization: LowBitType) -> None:
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1.0, 50.0):
        for shift in (0.0, 0.5 * scale):
            values = (scale * rng.standard_normal((40, 320)) + shift).astype(np.float32)
            raw = gguf_quantize(values, GGMLQuantizationType[quantization])
            representable = Tensor("x", values.shape, quantization, raw).dequantize()
            found = requantize(tensor(representable), quantization)
            np.testing.assert_array_equal(found.data, raw)


@pytest.mark.parametrize("quantization", TYPES)
@pytest.mark.parametrize(
    "kind", ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q6_K", "Q5_K", "Q4_0"]
)
def test_from_every_type(quantization: LowBitType, kind: str) -> None:
    values = np.random.default_rng(2).standard_normal((5, 512)).astype(np.float32)
    if kind in BLOCK_BYTES:  # `gguf` cannot write these: any bytes will do
        size = (5, 2 * BLOCK_BYTES[kind])
        raw = np.random.default_rng(3).integers(0, 100, size, dtype=np.uint8)
        source = Tensor("x", values.shape, kind, raw)
    else:
        source = stored(values, kind)
    expected = requantize(tensor(source.dequantize()), quantization)
    np.testing.assert_array_equal(requantize(source, quantization).data, expected.data)


def least_error(group: Float32Array, highest: int) -> float:
    """Of all monotone numberings of a group's few different weights, each with its regression."""
    weights, index = np.unique(group, return_inverse=True)
    counts = np.bincount(index).astype(np.float64)
    w = weights.astype(np.float64)
    numbers = np.array(
        list(itertools.combinations_with_replacement(range(highest + 1), len(w))), dtype=np.float64
    )
    total = counts.sum()
    mean_q, mean_w = numbers @ counts / total, w @ counts / total
    covariance = numbers @ (counts * w) / total - mean_q * mean_w
    spread = numbers**2 @ counts / total - mean_q**2
    variance = w**2 @ counts / total - mean_w**2
    explained = np.divide(covariance**2, spread, out=np.zeros_like(spread), where=spread > 0)
    return float(total * (variance - explained.max()))


@pytest.mark.parametrize("quantization", TYPES)
def test_the_error_is_near_the_least_that_is_possible(quantization: LowBitType) -> None:
    rng = np.random.default_rng(4)
    highest = HIGHEST[quantization]
    different = 5 if highest == 15 else 4
    groups = np.stack([rng.choice(rng.standard_normal(different), 32) for _ in range(40)]).astype(
        np.float32
    )
    found = squared_error(requantize(tensor(groups), quantization).dequantize(), groups)
    least = np.array([least_error(group, highest) for group in groups])
    variances = 32 * groups.var(axis=1)
    # So few points can be met almost exactly by numbers that no small change of scale finds: the
    # bound is what rounding to evenly spaced numbers costs.
    step = (groups.max(axis=1) - groups.min(axis=1)) / highest
    assert np.all(found >= least - 1e-6 * variances), "less than possible: the oracle is wrong"
    assert np.all(found <= 32 * (step / 2) ** 2)
    rounding = squared_error(
        gguf_dequantize(
            gguf_quantize(groups, GGMLQuantizationType[quantization]),
            GGMLQuantizationType[quantization],
        ),
        groups,
    )
    assert np.sum(found - least) < 0.75 * np.sum(rounding - least)


@pytest.mark.parametrize("quantization", TYPES)
def test_less_error_than_plain_rounding_on_gaussian_weights(quantization: LowBitType) -> None:
    values = np.random.default_rng(5).standard_normal((64, 512)).astype(np.float32)
    kind = GGMLQuantizationType[quantization]
    rounding = squared_error(gguf_dequantize(gguf_quantize(values, kind), kind), values)
    found = squared_error(requantize(tensor(values), quantization).dequantize(), values)
    assert found.sum() < 0.9 * rounding.sum()
    assert np.all(found < 1.02 * rounding), "some group is worse off"


@pytest.mark.parametrize("quantization", TYPES)
def test_odd_groups(quantization: LowBitType) -> None:
    zeros, equal = np.zeros(32), np.full(32, -0.75)
    one = np.where(np.arange(32) == 7, 3.0, 0.0)
    tiny, huge = np.full(32, 1e-38), np.linspace(-4e5, 4e5, 32)
    found = requantize(tensor(np.stack([zeros, equal, one, tiny, huge])), quantization).dequantize()
    np.testing.assert_array_equal(found[0], zeros)
    np.testing.assert_array_equal(found[1], equal)
    np.testing.assert_allclose(found[2], one, rtol=5e-4)  # its scale is rounded
    np.testing.assert_array_equal(found[3], zeros)
    assert np.isfinite(found[4]).all(), "half precision ends at 65504"


def test_matrices_of_many_chunks() -> None:
    values = np.random.default_rng(6).standard_normal((2100, 256)).astype(np.float32)
    whole = requantize(tensor(values), "Q4_1")
    for rows in (slice(0, 5), slice(1020, 1030), slice(2090, 2100)):
        part = requantize(tensor(values[rows]), "Q4_1")
        np.testing.assert_array_equal(whole.data[rows], part.data)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(bad: float) -> None:
    values = np.zeros((2, 32))
    values[1, 3] = bad
    with pytest.raises(CheckpointError, match="'x' has weights that are no finite numbers"):
        requantize(tensor(values), "Q4_1")
