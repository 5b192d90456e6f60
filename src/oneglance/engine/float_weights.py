"""All weights of a model as float32 matrices, those with the same input stacked into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig
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
    config: ModelConfig, weights: ModelWeights, progress: ProgressCallback | None = None
) -> FloatWeights:
    """Brings every weight to float32, once; memory is 4 bytes per weight and little more.

    Args:
        config: shapes to check against.
        weights: as the file has them.
        progress: called with ("load weights", units done, units in all).

    Raises:
        CheckpointError: a weight is missing, superfluous or of a wrong shape.
    """
    check_num_layers(config, weights)
    num_units = config.num_layers + 1
    embedding = _vocabulary_matrix(weights.embedding, config)
    is_tied = weights.head is weights.embedding
    head = embedding if is_tied else _vocabulary_matrix(weights.head, config)
    layers: list[FloatLayer] = []
    for index, layer in enumerate(weights.layers):
        if progress is not None:
            progress("load weights", index + 1, num_units)
        layers.append(_dequantize_layer(config, layer))
    final_norm = _read(weights.final_norm, (config.hidden_size,))
    if progress is not None:
        progress("load weights", num_units, num_units)
    return FloatWeights(embedding, tuple(layers), final_norm, head)


def _dequantize_layer(config: ModelConfig, layer: LayerWeights) -> FloatLayer:
    hidden, inner = config.hidden_size, config.intermediate_size
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    biases, norms = qkv_biases(config, layer), qk_norms(config, layer)
    return FloatLayer(
        input_norm=_read(layer.input_norm, (hidden,)),
        qkv=_stack((layer.q_proj, layer.k_proj, layer.v_proj), (q_size, kv_size, kv_size), hidden),
        qkv_bias=np.concatenate([bias.dequantize() for bias in biases]) if biases else None,
        q_norm=norms[0].dequantize() if norms else None,
        k_norm=norms[1].dequantize() if norms else None,
        o_proj=_read(layer.o_proj, (hidden, q_size)),
        post_attention_norm=_read(layer.post_attention_norm, (hidden,)),
        gate_up=_stack((layer.gate_proj, layer.up_proj), (inner, inner), hidden),
        down_proj=_read(layer.down_proj, (hidden, inner)),
    )


def _read(tensor: Tensor, shape: tuple[int, ...]) -> Float32Array:
    return with_shape(tensor, shape).dequantize()


def _stack(tensors: tuple[Tensor, ...], outputs: tuple[int, ...], inputs: int) -> Float32Array:
    """Fills one matrix part by part, so that only one part exists twice at any moment."""
    stacked = np.empty((sum(outputs), inputs), dtype=np.float32)
    start = 0
    for tensor, size in zip(tensors, outputs, strict=True):
        stacked[start : start + size] = _read(tensor, (size, inputs))
        start += size
    return stacked


def _vocabulary_matrix(tensor: Tensor, config: ModelConfig) -> Float32Array:
    """[vocab_size, D]; a matrix that is padded beyond the vocabulary loses the padding."""
    return vocabulary_matrix(tensor, config).dequantize()[: config.vocab_size]
