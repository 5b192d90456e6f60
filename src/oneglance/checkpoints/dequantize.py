"""Dequantisation of stored weights to float32."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.types import Float32Array

CHUNK_VALUES = 1 << 18
"""Values that are dequantised at a time, which bounds the temporary arrays."""
MAX_THREADS = 4


def dequantize(tensor: Tensor) -> Float32Array:
    """The values of a tensor as float32 of its logical shape, a contiguous copy.

    Rows are converted in chunks, by a few threads (numpy releases the interpreter lock), so that
    beside the result only some megabytes are needed.

    Args:
        tensor: a weight of any type that a checkpoint may have.
    """
    rows = tensor.data.reshape(-1, tensor.data.shape[-1])
    columns = tensor.shape[-1]
    result = np.empty((rows.shape[0], columns), dtype=np.float32)
    step = max(1, CHUNK_VALUES // columns)
    starts = range(0, rows.shape[0], step)

    def convert(start: int) -> None:
        chunk = slice(start, start + step)
        result[chunk] = _values(rows[chunk], tensor.quantization)

    if len(starts) == 1:
        convert(0)
    else:
        with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
            list(pool.map(convert, starts))
    return result.reshape(tensor.shape)


def _values(rows: NDArray[np.generic], quantization: str) -> Float32Array:
    if quantization in ("F32", "F16"):
        return rows.astype(np.float32)
    if quantization == "BF16":
        return (rows.astype(np.uint32) << 16).view(np.float32)
    from gguf import quants  # slow to import, and not needed to run packed weights

    # `quants.dequantize` would go through 16 rows at a time, too few to be fast.
    kind = getattr(quants, quantization)
    kind.init_grid()
    values: Float32Array = kind.dequantize_rows(rows)
    return values
