"""From the weights of a checkpoint to the packed matrices and layers of the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneglance import _native
from oneglance.checkpoints.base import FLOAT_TYPES, LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig, WeightsForm
from oneglance.engine.weight_checks import (
    check_num_layers,
    qk_norms,
    qkv_biases,
    vocabulary_matrix,
    with_shape,
)
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array, ProgressCallback


@dataclass(frozen=True)
class NativeWeights:
    """All weights as the kernels read them.

    Attributes:
        embedding: [V, D]; the same object as the head's matrix where the model ties them.
        layers: in order of depth.
        final_norm: [D], of the head.
        head_matrix: [V, D], of the head.
        head: the final norm and the output matrix.
        num_bytes: memory of all packed matrices.
    """

    embedding: _native.PackedMatrix
    layers: tuple[_native.Layer, ...]
    final_norm: Float32Array
    head_matrix: _native.PackedMatrix
    head: _native.Head
    num_bytes: int


def pack_model(
    config: ModelConfig,
    weights: ModelWeights,
    num_threads: int,
    form: WeightsForm = "auto",
    progress: ProgressCallback | None = None,
) -> NativeWeights:
    """Packs every matrix; quantised ones keep their bits, of float ones `form` says what becomes.

    Args:
        config: shapes to check against.
        weights: as the file has them.
        num_threads: how many threads pack.
        form: "auto" (8-bit groups), "bf16" or "f32".
        progress: called with ("load weights", units done, units in all).

    Raises:
        CheckpointError: a weight is missing, superfluous, of a wrong shape or not finite.
    """
    check_num_layers(config, weights)
    packer = _Packer(config, num_threads, form)
    num_units = config.num_layers + 1
    is_tied = weights.head is weights.embedding
    embedding = packer.vocabulary(weights.embedding, is_precise=is_tied)
    head_matrix = embedding if is_tied else packer.vocabulary(weights.head, is_precise=True)
    layers: list[_native.Layer] = []
    for index, layer in enumerate(weights.layers):
        if progress is not None:
            progress("load weights", index + 1, num_units)
        layers.append(packer.layer(index, layer))
    final_norm = packer.vector(weights.final_norm, config.hidden_size)
    head = _native.Head(norm=final_norm, matrix=head_matrix, eps=config.rms_norm_eps)
    if progress is not None:
        progress("load weights", num_units, num_units)
    return NativeWeights(embedding, tuple(layers), final_norm, head_matrix, head, packer.num_bytes)


def precise_planes(quantization: str, form: WeightsForm) -> int:
    """In how many planes of 8 bits the precise matrices take activations.

    These are the head, q, k, v, gate and up, which a norm precedes. Two planes where 8-bit groups
    are made of floats: rounding these inputs to 8 bits would move the law twice as far as rounding
    all weights does. What the file has quantised meets its target as it is, and stays as fast.

    Args:
        quantization: type of the tensor in the file.
        form: what becomes of float weights.
    """
    return 2 if quantization in FLOAT_TYPES and form == "auto" else 1


def pack_tensor(
    tensor: Tensor,
    shape: tuple[int, int],
    num_threads: int,
    form: WeightsForm = "auto",
    planes: int = 1,
) -> _native.PackedMatrix:
    """Packs the first rows of a matrix.

    Args:
        tensor: as the file has it.
        shape: [outputs, inputs] of the packed matrix; the tensor has at least so many rows.
        num_threads: how many threads pack.
        form: what becomes of floats.
        planes: in how many planes of 8 bits products take activations.

    Raises:
        CheckpointError: a type or width that cannot be packed, or a weight that is not finite.
    """
    outputs, inputs = shape
    # Of a matrix in one piece this is a view of the file: nothing is copied but by packing.
    data = np.ascontiguousarray(tensor.data[:outputs]).view(np.uint8).reshape(-1)
    try:
        return _native.pack(
            data,
            tensor.quantization,
            outputs,
            inputs,
            num_threads,
            form,
            activation_planes=planes,
        )
    except ValueError as error:
        raise CheckpointError(
            f"Tensor {tensor.name!r} cannot be packed: {error}; use another file of the model, "
            "or the reference engine."
        ) from None


class _Packer:
    """Packs tensors of one model and counts what they take."""

    def __init__(self, config: ModelConfig, num_threads: int, form: WeightsForm) -> None:
        self.num_bytes = 0
        self._form = form
        self._config = config
        self._num_threads = num_threads

    def vocabulary(self, tensor: Tensor, is_precise: bool) -> _native.PackedMatrix:
        """[V, D]; rows of padding beyond the vocabulary are left out."""
        vocabulary_matrix(tensor, self._config)
        size, hidden = self._config.vocab_size, self._config.hidden_size
        return self._pack(tensor, size, hidden, is_precise)

    def matrix(
        self, tensor: Tensor, outputs: int, inputs: int, is_precise: bool = False
    ) -> _native.PackedMatrix:
        return self._pack(with_shape(tensor, (outputs, inputs)), outputs, inputs, is_precise)

    def vector(self, tensor: Tensor, size: int) -> Float32Array:
        return with_shape(tensor, (size,)).dequantize()

    def layer(self, index: int, layer: LayerWeights) -> _native.Layer:
        config = self._config
        hidden, inner = config.hidden_size, config.intermediate_size
        q_size = config.num_heads * config.head_dim
        kv_size = config.num_kv_heads * config.head_dim
        biases, norms = qkv_biases(config, layer), qk_norms(config, layer)
        return _native.Layer(
            index=index,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            input_norm=self.vector(layer.input_norm, hidden),
            q_proj=self.matrix(layer.q_proj, q_size, hidden, is_precise=True),
            k_proj=self.matrix(layer.k_proj, kv_size, hidden, is_precise=True),
            v_proj=self.matrix(layer.v_proj, kv_size, hidden, is_precise=True),
            o_proj=self.matrix(layer.o_proj, hidden, q_size),
            post_attention_norm=self.vector(layer.post_attention_norm, hidden),
            gate_proj=self.matrix(layer.gate_proj, inner, hidden, is_precise=True),
            up_proj=self.matrix(layer.up_proj, inner, hidden, is_precise=True),
            down_proj=self.matrix(layer.down_proj, hidden, inner),
            qkv_bias=np.concatenate([bias.dequantize() for bias in biases]) if biases else None,
            q_norm=norms[0].dequantize() if norms else None,
            k_norm=norms[1].dequantize() if norms else None,
        )

    def _pack(
        self, tensor: Tensor, outputs: int, inputs: int, is_precise: bool
    ) -> _native.PackedMatrix:
        planes = precise_planes(tensor.quantization, self._form) if is_precise else 1
        packed = pack_tensor(tensor, (outputs, inputs), self._num_threads, self._form, planes)
        self.num_bytes += packed.num_bytes
        return packed
