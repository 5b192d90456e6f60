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
from oneglance.engine.native.weights import precise_planes
from oneglance.errors import CheckpointError
from oneglance.heads.medusa import MedusaWeights
from oneglance.sampling.row_kernels import row_kernels
from oneglance.types import Float32Array, IntArray


class NativeMedusa:
    """Heads of one target, with the target's vocabulary.

    Attributes:
        num_heads: H.
        weight_bytes: memory that the packed matrices take.
    """

    def __init__(
        self,
        weights: MedusaWeights,
        target_output: Tensor,
        vocab_size: int,
        runtime: _native.Runtime,
    ) -> None:
        """Packs the heads; matrices of floats become groups of 8 bits.

        Args:
            weights: as the file has them.
            target_output: [at least V, D] output matrix of the target, for heads without their own.
            vocab_size: width of the target's law; what is beyond it is never drafted.
            runtime: what the target runs on.

        Raises:
            CheckpointError: a weight is not finite, or of a type that cannot be packed.
        """
        self.num_heads = weights.config.num_heads
        self.weight_bytes = 0
        self._vocab_size = vocab_size
        self._runtime = runtime
        self._first = self._pack(_stacked([blocks[0].weight for blocks in weights.blocks]))
        self._later = [
            [self._pack(block.weight) for block in blocks[1:]] for blocks in weights.blocks
        ]
        self._biases = [
            [_finite(block.bias.dequantize(), block.bias.name) for block in blocks]
            for blocks in weights.blocks
        ]
        self._ids = _drafted_ids(weights, vocab_size)
        count = vocab_size if self._ids is None else len(self._ids)
        if weights.outputs:
            self._outputs = [self._pack(_rows(matrix, count)) for matrix in weights.outputs]
        elif self._ids is None:
            self._outputs = [self._pack(_rows(target_output, count))]
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
        if len(self._outputs) == 1:
            joined = states.reshape(-1, states.shape[-1])
            scores = _native.matmul(self._runtime, self._outputs[0], joined)
            return scores.reshape(len(features), num_heads, -1)
        each = [
            _native.matmul(self._runtime, self._outputs[head], states[:, head].copy())
            for head in range(num_heads)
        ]
        return np.stack(each, axis=1)

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
        data = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1)
        outputs, inputs = tensor.shape
        try:
            packed = _native.pack(
                data,
                tensor.quantization,
                outputs,
                inputs,
                self._runtime.num_threads,
                activation_planes=precise_planes(tensor.quantization, "auto"),
            )
        except ValueError as error:
            raise CheckpointError(
                f"Tensor {tensor.name!r} of the Medusa heads cannot be packed: {error}; download "
                "or train them again."
            ) from None
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


def _rows(tensor: Tensor, rows: int | IntArray) -> Tensor:
    """Some rows of a matrix, or its first so many, in the form that they are stored in."""
    data = tensor.data[:rows] if isinstance(rows, int) else tensor.data[rows]
    return replace(tensor, shape=(len(data), tensor.shape[1]), data=data)


def _drafted_ids(weights: MedusaWeights, vocab_size: int) -> IntArray | None:
    """Those tokens of the draft vocabulary that the target's law has."""
    ids = weights.token_ids
    return None if ids is None else ids[ids < vocab_size]


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
