"""All weights of a model as float32 matrices, those with the same input stacked into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig
from oneglance.errors import CheckpointError
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
    if len(weights.layers) != config.num_layers:
        raise CheckpointError(
            f"The checkpoint has {len(weights.layers)} layers, but its configuration says "
            f"{config.num_layers}; it is incomplete or damaged."
        )
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
    sizes = (q_size, kv_size, kv_size)
    name = layer.q_proj.name
    biases = _optional((layer.q_bias, layer.k_bias, layer.v_bias), config.has_qkv_bias, name)
    norms = _optional((layer.q_norm, layer.k_norm), config.has_qk_norm, name)
    return FloatLayer(
        input_norm=_read(layer.input_norm, (hidden,)),
        qkv=_stack((layer.q_proj, layer.k_proj, layer.v_proj), sizes, hidden),
        qkv_bias=np.concatenate([_read(b, (n,)) for b, n in zip(biases, sizes, strict=True)])
        if biases
        else None,
        q_norm=_read(norms[0], (config.head_dim,)) if norms else None,
        k_norm=_read(norms[1], (config.head_dim,)) if norms else None,
        o_proj=_read(layer.o_proj, (hidden, q_size)),
        post_attention_norm=_read(layer.post_attention_norm, (hidden,)),
        gate_up=_stack((layer.gate_proj, layer.up_proj), (inner, inner), hidden),
        down_proj=_read(layer.down_proj, (hidden, inner)),
    )


def _read(tensor: Tensor, shape: tuple[int, ...]) -> Float32Array:
    if tuple(tensor.shape) != shape:
        raise CheckpointError(
            f"Tensor {tensor.name!r} has shape {tuple(tensor.shape)}, but the configuration "
            f"demands {shape}; the checkpoint is damaged or of another architecture."
        )
    return tensor.dequantize()


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
    num_rows = max(config.vocab_size, tensor.shape[0])
    return _read(tensor, (num_rows, config.hidden_size))[: config.vocab_size]


def _optional(tensors: tuple[Tensor | None, ...], is_expected: bool, name: str) -> list[Tensor]:
    """All of them if they are expected, none otherwise; anything else is a damaged file."""
    present = [tensor for tensor in tensors if tensor is not None]
    if len(present) != (len(tensors) if is_expected else 0):
        raise CheckpointError(
            f"The layer of {name!r} has {len(present)} of its biases or head norms, but the "
            f"configuration demands {len(tensors) if is_expected else 0}; the checkpoint is "
            "damaged or of another architecture."
        )
    return present
