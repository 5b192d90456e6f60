"""Medusa's heads on the kernels: packed matrices, the target's own output rows where shared.

No attention, no cache: states go in, logits come out. What a row of states yields does not depend
on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oneglance import _native
from oneglance.checkpoints.base import Tensor
from oneglance.engine.base import TopTokens
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.native.weights import pack_tensor
from oneglance.errors import CheckpointError
from oneglance.heads.medusa import MedusaWeights
from oneglance.sampling.row_kernels import row_kernels
from oneglance.types import Float32Array, IntArray


class NativeMedusa:
    """Heads of one target, on its threads.

    Attributes:
        num_heads: H.
        weight_bytes: memory of the matrices that are not the target's.
    """

    def __init__(
        self,
        weights: MedusaWeights,
        target: NativeEngine,
        target_output: Tensor,
        vocab_size: int,
    ) -> None:
        """Packs the heads; what their file has as floats becomes groups of 8 bits.

        All products take activations of 8 bits, since no answer depends on them.

        Args:
            weights: as the file has them.
            target: what they draft for; its output matrix serves heads that guess all tokens and
                have none of their own.
            target_output: that matrix as the file has it, for heads that use some of its rows.
            vocab_size: width of the target's law; what is beyond it is never drafted.

        Raises:
            CheckpointError: a weight is not finite, or of a type that cannot be packed.
        """
        self.num_heads = weights.config.num_heads
        self.weight_bytes = 0
        self._vocab_size = vocab_size
        self._runtime = target.runtime
        self._first = self._pack(_stacked([blocks[0].weight for blocks in weights.blocks]))
        self._later = [
            [self._pack(block.weight) for block in blocks[1:]] for blocks in weights.blocks
        ]
        self._biases = [
            [_finite(block.bias.dequantize(), block.bias.name) for block in blocks]
            for blocks in weights.blocks
        ]
        ids = weights.token_ids
        self._ids: IntArray | None = None if ids is None else ids[ids < vocab_size]
        if weights.outputs:
            self._outputs = [self._pack(matrix) for matrix in weights.outputs]
        elif self._ids is None:
            self._outputs = [target.weights.head_matrix]
        else:
            self._outputs = [self._pack(_rows(target_output, self._ids))]

    def top(self, features: Float32Array, num_heads: int, num_top: int) -> list[TopTokens]:
        """The best tokens of the first heads, as `drafters.medusa.Heads` has it."""
        kernels = row_kernels()
        found: list[TopTokens] = []
        for rows in self._scores(features, num_heads):
            best = np.stack([kernels.ranked(row, min(num_top, len(row))) for row in rows])
            ids = best if self._ids is None else self._ids[best]
            found.append(TopTokens(ids, np.take_along_axis(rows, best, axis=1)))
        return found

    def logits(self, features: Float32Array, num_heads: int) -> Float32Array:
        """Logits [R, num_heads, V], −inf of what no head drafts."""
        scores = self._scores(features, num_heads)
        if self._ids is None:
            return scores
        rows = np.full((*scores.shape[:2], self._vocab_size), -np.inf, dtype=np.float32)
        rows[..., self._ids] = scores
        return rows

    def _scores(self, features: Float32Array, num_heads: int) -> Float32Array:
        """Logits [R, num_heads, V_d] over the draft vocabulary."""
        states = self._states(np.ascontiguousarray(features, dtype=np.float32), num_heads)
        if len(self._outputs) == 1:  # one for all heads, or there is only one head
            joined = states.reshape(-1, states.shape[-1])
            scores = _native.matmul(self._runtime, self._outputs[0], joined)
            scores = scores.reshape(len(features), num_heads, -1)
        else:
            each = [
                _native.matmul(self._runtime, self._outputs[head], states[:, head].copy())
                for head in range(num_heads)
            ]
            scores = np.stack(each, axis=1)
        # Rows beyond those are padding of a matrix, or of tokens that the target's law lacks.
        return scores[..., : self._vocab_size if self._ids is None else len(self._ids)]

    def _states(self, features: Float32Array, num_heads: int) -> Float32Array:
        """What the output matrices read, [R, num_heads, D]."""
        size = features.shape[1]
        moved = _native.matmul(self._runtime, self._first, features).reshape(
            -1, self.num_heads, size
        )
        states = np.repeat(features[:, None], num_heads, axis=1)
        for head in range(num_heads):
            first, *others = self._biases[head]
            states[:, head] += _silu(moved[:, head] + first)
            for matrix, bias in zip(self._later[head], others, strict=True):
                inner = _native.matmul(self._runtime, matrix, states[:, head].copy())
                states[:, head] += _silu(inner + bias)
        return states

    def _pack(self, tensor: Tensor) -> _native.PackedMatrix:
        outputs, inputs = tensor.shape
        packed = pack_tensor(tensor, (outputs, inputs), self._runtime.num_threads)
        self.weight_bytes += packed.num_bytes
        return packed


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Matrices of one type and width, one below the other."""
    if len({tensor.quantization for tensor in tensors}) > 1:
        raise CheckpointError(
            f"Tensor {tensors[0].name!r} of the Medusa heads is of another type than that of the "
            "next heads; convert them to one."
        )
    data = np.concatenate([tensor.data for tensor in tensors])
    rows = sum(tensor.shape[0] for tensor in tensors)
    return replace(tensors[0], shape=(rows, tensors[0].shape[1]), data=data)


def _rows(tensor: Tensor, rows: IntArray) -> Tensor:
    """Some rows of a matrix, in the form that they are stored in."""
    return replace(tensor, shape=(len(rows), tensor.shape[1]), data=tensor.data[rows])


def _finite(values: Float32Array, name: str) -> Float32Array:
    if not np.isfinite(values).all():
        raise CheckpointError(
            f"Tensor {name!r} of the Medusa heads has values that are no finite numbers; download "
            "or train them again."
        )
    return values


def _silu(x: Float32Array) -> Float32Array:
    with np.errstate(over="ignore"):  # exp of a large number is inf, and x / inf is 0
        result: Float32Array = x / (1 + np.exp(-x))
    return result
