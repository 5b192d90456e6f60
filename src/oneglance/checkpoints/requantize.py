"""A matrix again in 4 or 5 bits a weight: groups of 32 with scale and minimum (Q4_1, Q5_1).

A group w is stored as whole numbers q of so many bits, a scale d and a minimum m in half
precision, and stands for d q + m. For given q the best d and m are those of linear regression;
for given d and m the nearest q are best. So a few scales are tried, each is refitted to the
numbers that it gives, and the one that leaves the least squared error is kept.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.dequantize import CHUNK_VALUES, MAX_THREADS
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array

LowBitType = Literal["Q4_1", "Q5_1"]

GROUP = 32
HIGHEST: dict[LowBitType, int] = {"Q4_1": 15, "Q5_1": 31}
"""Largest number that is stored."""

STRETCHES = (1.0, 0.97, 1.07)
"""How far the largest weight of a group is above the smallest, in parts of the numbers' range;
beyond 1 it is cut, to the gain of the others."""
MARGIN = np.float32(1e-5)
"""What share of a group's variance a candidate must explain beyond an earlier one, so that
rounding alone decides nothing: a group that is of this type already comes back bit by bit."""
LARGEST_HALF = float(np.finfo(np.float16).max)
SMALLEST = np.float32(1e-30)
"""Anything below, far beyond what half precision can express, counts as zero."""


def requantize(tensor: Tensor, quantization: LowBitType) -> Tensor:
    """The same matrix in fewer bits; chunk by chunk and by a few threads, see `dequantize`.

    Args:
        tensor: [outputs, inputs] of any type that a checkpoint may have, inputs a multiple of 32.
        quantization: its new type.

    Raises:
        CheckpointError: a weight is not finite.
    """
    outputs, inputs = tensor.shape
    step = max(1, CHUNK_VALUES // inputs)

    def convert(start: int) -> NDArray[np.uint8]:
        data = tensor.data[start : start + step]
        part = replace(tensor, shape=(len(data), inputs), data=data).dequantize()
        if not np.isfinite(part).all():
            raise CheckpointError(
                f"Tensor {tensor.name!r} has weights that are no finite numbers; download the "
                "model again, or choose another drafter."
            )
        return to_blocks(part.reshape(-1, GROUP), quantization).reshape(len(data), -1)

    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        blocks = np.concatenate(list(pool.map(convert, range(0, outputs, step))))
    return Tensor(tensor.name, tensor.shape, quantization, blocks)


def to_blocks(groups: Float32Array, quantization: LowBitType) -> NDArray[np.uint8]:
    """The bytes [G, 20 or 24] of groups [G, 32] of finite weights."""
    highest = HIGHEST[quantization]
    fitted = np.clip(np.stack(best_fit(groups, highest), axis=1), -LARGEST_HALF, LARGEST_HALF)
    halves = fitted.astype(np.float16)
    scales, minima = halves.astype(np.float32).T
    stored = _nearest(groups - minima[:, None], _inverse(scales), highest).astype(np.uint8)
    parts = [halves.view(np.uint8)]
    if quantization == "Q5_1":
        parts.append(np.packbits(stored >> np.uint8(4), axis=1, bitorder="little"))
    # The lower half of a byte is of a weight of the first 16, the upper one of the last.
    low: NDArray[np.uint8] = stored & np.uint8(15)
    parts.append(low[:, : GROUP // 2] | low[:, GROUP // 2 :] << np.uint8(4))
    return np.concatenate(parts, axis=1)


def best_fit(groups: Float32Array, highest: int) -> tuple[Float32Array, Float32Array]:
    """Scale and minimum [G] of groups [G, 32] whose numbers are 0 to `highest`."""
    minima = groups.min(axis=1)
    above = groups - minima[:, None]  # so that sums lose nothing to a large common part
    spans = above.max(axis=1)
    means = above.mean(axis=1)
    variances = np.einsum("gi,gi->g", above, above) / GROUP - means * means

    scales, shifts = spans / highest, np.zeros_like(spans)
    errors = above - _nearest(above, _inverse(scales), highest) * scales[:, None]
    explained = variances - np.einsum("gi,gi->g", errors, errors) / GROUP
    for stretch in STRETCHES:
        values = _nearest(above, _inverse(spans) * np.float32(stretch * highest), highest)
        value_means = values.mean(axis=1)
        covariances = np.einsum("gi,gi->g", above, values) / GROUP - means * value_means
        spreads = np.einsum("gi,gi->g", values, values) / GROUP - value_means * value_means
        slopes = covariances * _inverse(spreads)
        is_better = slopes * covariances > explained + MARGIN * variances
        explained = np.where(is_better, slopes * covariances, explained)
        scales = np.where(is_better, slopes, scales)
        shifts = np.where(is_better, means - slopes * value_means, shifts)
    return scales, minima + shifts


def _nearest(above: Float32Array, factors: Float32Array, highest: int) -> Float32Array:
    """The stored numbers, as floats, of groups that are to be multiplied by `factors` [G]."""
    values = above * factors[:, None]
    np.rint(values, out=values)
    return np.clip(values, 0, highest, out=values)


def _inverse(values: Float32Array) -> Float32Array:
    """1 / x, and 0 of what counts as 0: a group of equal weights stays one."""
    result = np.zeros_like(values)
    np.divide(np.float32(1), values, out=result, where=np.abs(values) >= SMALLEST)
    return result
