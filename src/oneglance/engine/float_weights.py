"""All weights of a model as float32 matrices, those with the same input stacked into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneglance.checkpoints.base import FLOAT_TYPES, LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig, WeightsForm
from oneglance.engine.weight_checks import (
    check_num_layers,
    qk_norms,
    qkv_biases,
    vocabulary_matrix,
    with_shape,
)
from oneglance.types import Float32Array, ProgressCallback


@dataclass(frozen=True)
class FloatLayer:
    """Weights of one layer; D hidden size, Q and KV sizes of queries and keys, F intermediate.

    Attributes:
        input_norm: [D].
        qkv: [Q + 2 KV, D] queries, keys, values.
        qkv_bias: [Q + 2 KV], or None.
        q_norm, k_norm: [head_dim], or None.
        o_proj: [D, Q].
        post_attention_norm: [D].
        gate_up: [2 F, D] gate, then up.
        down_proj: [D, F].
    """

    input_norm: Float32Array
    qkv: Float32Array
    qkv_bias: Float32Array | None
    q_norm: Float32Array | None
    k_norm: Float32Array | None
    o_proj: Float32Array
    post_attention_norm: Float32Array
    gate_up: Float32Array
    down_proj: Float32Array


@dataclass(frozen=True)
class FloatWeights:
    """All weights; `head` is a view of `embedding` where the model ties them, [V, D] each."""

    embedding: Float32Array
    layers: tuple[FloatLayer, ...]
    final_norm: Float32Array
    head: Float32Array


def dequantize_model(
    config: ModelConfig,
    weights: ModelWeights,
    form: WeightsForm = "auto",
    progress: ProgressCallback | None = None,
) -> FloatWeights:
    """Brings every weight to float32, once; memory is 4 bytes per weight and little more.

    Args:
        config: shapes to check against.
        weights: as the file has them.
        form: "bf16" rounds matrices that are floats in the file to bfloat16; "auto" and "f32" have
            them exactly.
        progress: called with ("load weights", units done, units in all).

    Raises:
        CheckpointError: a weight is missing, superfluous or of a wrong shape.
    """
    check_num_layers(config, weights)
    num_units = config.num_layers + 1
    reader = _Reader(config, form)
    embedding = reader.vocabulary(weights.embedding)
    is_tied = weights.head is weights.embedding
    head = embedding if is_tied else reader.vocabulary(weights.head)
    layers: list[FloatLayer] = []
    for index, layer in enumerate(weights.layers):
        if progress is not None:
            progress("load weights", index + 1, num_units)
        layers.append(reader.layer(layer))
    final_norm = reader.vector(weights.final_norm, config.hidden_size)
    if progress is not None:
        progress("load weights", num_units, num_units)
    return FloatWeights(embedding, tuple(layers), final_norm, head)


def round_to_bfloat16(values: Float32Array) -> Float32Array:
    """The nearest bfloat16 of finite numbers, ties to even; the largest become infinite."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    result: Float32Array = np.where(np.isfinite(values), rounded.view(np.float32), values)
    return result


class _Reader:
    """Reads tensors of one model as float32."""

    def __init__(self, config: ModelConfig, form: WeightsForm) -> None:
        self._config = config
        self._form = form

    def vocabulary(self, tensor: Tensor) -> Float32Array:
        """[vocab_size, D]; a matrix that is padded beyond the vocabulary loses the padding."""
        return self._values(vocabulary_matrix(tensor, self._config))[: self._config.vocab_size]

    def vector(self, tensor: Tensor, size: int) -> Float32Array:
        return with_shape(tensor, (size,)).dequantize()

    def layer(self, layer: LayerWeights) -> FloatLayer:
        config = self._config
        hidden, inner = config.hidden_size, config.intermediate_size
        q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        biases, norms = qkv_biases(config, layer), qk_norms(config, layer)
        qkv = (layer.q_proj, layer.k_proj, layer.v_proj)
        return FloatLayer(
            input_norm=self.vector(layer.input_norm, hidden),
            qkv=self._stack(qkv, (q_size, kv_size, kv_size), hidden),
            qkv_bias=np.concatenate([bias.dequantize() for bias in biases]) if biases else None,
            q_norm=norms[0].dequantize() if norms else None,
            k_norm=norms[1].dequantize() if norms else None,
            o_proj=self._stack((layer.o_proj,), (hidden,), q_size),
            post_attention_norm=self.vector(layer.post_attention_norm, hidden),
            gate_up=self._stack((layer.gate_proj, layer.up_proj), (inner, inner), hidden),
            down_proj=self._stack((layer.down_proj,), (hidden,), inner),
        )

    def _stack(
        self, tensors: tuple[Tensor, ...], outputs: tuple[int, ...], inputs: int
    ) -> Float32Array:
        """Fills one matrix part by part, so that only one part exists twice at any moment."""
        stacked = np.empty((sum(outputs), inputs), dtype=np.float32)
        start = 0
        for tensor, size in zip(tensors, outputs, strict=True):
            stacked[start : start + size] = self._values(with_shape(tensor, (size, inputs)))
            start += size
        return stacked

    def _values(self, tensor: Tensor) -> Float32Array:
        values = tensor.dequantize()
        is_rounded = self._form == "bf16" and tensor.quantization in FLOAT_TYPES
        return round_to_bfloat16(values) if is_rounded else values
