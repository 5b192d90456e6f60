"""A matrix again in 4 bits a weight: groups of 32 with one scale, as GGUF's Q4_0 has them.

A group w is stored as whole numbers q in -8..7 and a half-precision scale d. For given q the
scale that leaves the least squared error is sum(w q) / sum(q²), and it explains
sum(w q)² / sum(q²) of sum(w²); for a given scale the nearest numbers are best. So a few scales are
tried, each is refitted to the numbers it gives, and the one that explains most is kept.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.dequantize import CHUNK_VALUES, MAX_THREADS
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array

LOW_BIT_TYPE = "Q4_0"
GROUP = 32
BLOCK_BYTES = 18
"""A half-precision scale and 32 numbers of 4 bits."""
LOWEST, HIGHEST = -8, 7

CANDIDATES = (8.0, 7.2, 9.0)
"""What the weight of largest magnitude is scaled to, up to its sign. The first brings groups back
bit by bit that are of this type already; beyond 8 that weight is cut, to the gain of the others."""
MARGIN = np.float32(1 + 1e-6)
"""How much more than an earlier candidate a later one must explain: more than rounding makes."""
LARGEST_HALF = float(np.finfo(np.float16).max)
SMALLEST = np.float32(1e-30)
"""Anything below, far beyond what half precision can express, counts as zero."""


def requantize(tensor: Tensor) -> Tensor:
    """The same matrix in Q4_0; chunk by chunk and by a few threads, see `dequantize`.

    Args:
        tensor: [outputs, inputs] of any type that a checkpoint may have, inputs a multiple of 32.

    Raises:
        CheckpointError: a weight is not finite.
    """
    outputs, inputs = tensor.shape
    blocks = np.empty((outputs, inputs // GROUP * BLOCK_BYTES), dtype=np.uint8)
    step = max(1, CHUNK_VALUES // inputs)

    def convert(start: int) -> None:
        data = tensor.data[start : start + step]
        part = replace(tensor, shape=(len(data), inputs), data=data).dequantize()
        if not np.isfinite(part).all():
            raise CheckpointError(
                f"Tensor {tensor.name!r} has weights that are no finite numbers; download the "
                "model again, or choose another drafter."
            )
        blocks[start : start + step] = to_blocks(part.reshape(-1, GROUP)).reshape(len(data), -1)

    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        list(pool.map(convert, range(0, outputs, step)))
    return Tensor(tensor.name, tensor.shape, LOW_BIT_TYPE, blocks)


def to_blocks(groups: Float32Array) -> NDArray[np.uint8]:
    """The bytes [G, 18] of groups [G, 32] of finite weights."""
    scales = best_scales(groups).astype(np.float16)
    values = _nearest(groups, _inverse(scales.astype(np.float32))).astype(np.int8)
    stored = (values - LOWEST).astype(np.uint8)
    blocks = np.empty((len(groups), BLOCK_BYTES), dtype=np.uint8)
    blocks[:, :2] = scales.view(np.uint8).reshape(-1, 2)
    # The lower half of a byte holds a weight of the first 16, the upper one of the last.
    blocks[:, 2:] = stored[:, : GROUP // 2] | stored[:, GROUP // 2 :] << 4
    return blocks


def best_scales(groups: Float32Array) -> Float32Array:
    """[G] scales of groups [G, 32], within what half precision can express."""
    largest = np.abs(groups).argmax(axis=1)
    extremes = groups[np.arange(len(groups)), largest]
    best = np.full(len(groups), -1, dtype=np.float32)
    scales = np.zeros(len(groups), dtype=np.float32)
    for candidate in CANDIDATES:
        values = _nearest(groups, _inverse(extremes) * np.float32(-candidate))
        with np.errstate(over="ignore", invalid="ignore"):  # only of weights beyond 1e17 or so
            products = np.einsum("gi,gi->g", groups, values)
            refitted = products * _inverse(np.einsum("gi,gi->g", values, values))
            explained = products * refitted
        is_better = explained > best * MARGIN
        best[is_better] = explained[is_better]
        scales[is_better] = refitted[is_better]
    return np.clip(scales, -LARGEST_HALF, LARGEST_HALF)


def _nearest(groups: Float32Array, factors: Float32Array) -> Float32Array:
    """The stored numbers, as floats, of groups that are to be multiplied by `factors` [G]."""
    values = groups * factors[:, None]
    np.rint(values, out=values)
    return np.clip(values, LOWEST, HIGHEST, out=values)


def _inverse(values: Float32Array) -> Float32Array:
    """1 / x, and 0 of what counts as 0: a group of zeros stays one."""
    result = np.zeros_like(values)
    np.divide(np.float32(1), values, out=result, where=np.abs(values) >= SMALLEST)
    return result
