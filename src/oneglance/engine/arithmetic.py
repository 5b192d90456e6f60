"""Float32 operations whose result for a row never depends on the rows beside it (contract C2).

Three facts are used, and tested: elementwise functions give each element the same bits wherever
it lies; a sum along the last axis of an array in row order adds each row in the same order,
however many rows there are; and a product of one matrix with several *separate* vectors
multiplies each of them on its own. A product of two matrices has none of this, which is why
`project` never forms one over rows.
"""

from __future__ import annotations

import numpy as np

from oneglance.types import Float32Array

BLOCK_BYTES = 512 * 1024
"""Weights multiplied at a time: small enough to stay in a core's cache while all rows use them."""


def rms_norm(rows: Float32Array, weight: Float32Array, eps: float) -> Float32Array:
    """Root-mean-square norm along the last axis (arXiv:1910.07467, Eq. 4).

    Args:
        rows: [..., D], contiguous along the last axis.
        weight: [D].
        eps: added to the mean square.
    """
    squares: Float32Array = np.add.reduce(rows * rows, axis=-1, keepdims=True)
    normed: Float32Array = rows / np.sqrt(squares / rows.shape[-1] + eps) * weight
    return normed


def softmax(scores: Float32Array) -> Float32Array:
    """Softmax along the last axis."""
    weights: Float32Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def swiglu(gate: Float32Array, up: Float32Array) -> Float32Array:
    """SiLU(gate) · up (arXiv:2002.05202, Eq. 6), elementwise."""
    product: Float32Array = gate / (1 + np.exp(-gate)) * up
    return product


def project(matrix: Float32Array, rows: Float32Array) -> Float32Array:
    """Multiplies rows with a weight matrix, block of outputs by block of outputs.

    Each (block, row) pair is one matrix-vector product of a shape that only the matrix decides,
    so that a row's bits are its own. All rows use a block while it is in cache, so that a pass
    over several rows costs less than as many passes.

    Args:
        matrix: [outputs, inputs].
        rows: [R, inputs].

    Returns:
        [R, outputs], a new array.
    """
    outputs, inputs = matrix.shape
    result = np.empty((len(rows), outputs), dtype=np.float32)
    block = max(16, BLOCK_BYTES // (4 * inputs) // 16 * 16)
    # The trailing axis makes each row a matrix of one column: matmul then calls the
    # matrix-vector routine once for each row instead of one matrix product over all.
    columns, targets = rows[:, :, None], result[:, :, None]
    for start in range(0, outputs, block):
        np.matmul(matrix[start : start + block], columns, out=targets[:, start : start + block])
    return result
