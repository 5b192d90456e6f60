"""A second, independent definition of the model: one formula over the whole sequence, float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig

Float64 = NDArray[np.float64]


def oracle_hidden(config: ModelConfig, weights: ModelWeights, tokens: list[int]) -> list[Float64]:
    """The residual stream [T, D] that enters each layer, and last the one that leaves them all."""
    stream = _values(weights.embedding)[tokens]
    streams = [stream]
    for layer in weights.layers:
        stream = stream + _attention(config, layer, stream)
        x = _norm(stream, layer.post_attention_norm, config)
        gate = x @ _values(layer.gate_proj).T
        silu = gate * (1.0 / (1.0 + np.exp(-gate)))
        stream = stream + (silu * (x @ _values(layer.up_proj).T)) @ _values(layer.down_proj).T
        streams.append(stream)
    return streams


def oracle_logits(
    config: ModelConfig, weights: ModelWeights, tokens: list[int], num_layers: int | None = None
) -> Float64:
    """[T, V] logits after each token, all layers or the first `num_layers`."""
    depth = config.num_layers if num_layers is None else num_layers
    final = _norm(oracle_hidden(config, weights, tokens)[depth], weights.final_norm, config)
    logits: Float64 = final @ _values(weights.head).T
    return logits


def _values(tensor: Tensor) -> Float64:
    return tensor.data.astype(np.float64)


def _norm(x: Float64, weight: Tensor, config: ModelConfig) -> Float64:
    scale: Float64 = 1.0 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + config.rms_norm_eps)
    return x * scale * _values(weight)


def _attention(config: ModelConfig, layer: LayerWeights, stream: Float64) -> Float64:
    x = _norm(stream, layer.input_norm, config)
    query = _heads(config, x, layer.q_proj, layer.q_bias)
    key = _heads(config, x, layer.k_proj, layer.k_bias)
    value = _heads(config, x, layer.v_proj, layer.v_bias)
    if layer.q_norm is not None and layer.k_norm is not None:
        query, key = _norm(query, layer.q_norm, config), _norm(key, layer.k_norm, config)
    query, key = _rotate(config, query), _rotate(config, key)
    group = config.num_heads // config.num_kv_heads
    length = len(stream)
    outputs = []
    for head in range(config.num_heads):
        scores = query[:, head] @ key[:, head // group].T / math.sqrt(config.head_dim)
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        probs = np.exp(scores - scores.max(axis=1, keepdims=True))
        outputs.append(probs / probs.sum(axis=1, keepdims=True) @ value[:, head // group])
    return np.concatenate(outputs, axis=1) @ _values(layer.o_proj).T


def _heads(config: ModelConfig, x: Float64, weight: Tensor, bias: Tensor | None) -> Float64:
    y = x @ _values(weight).T
    if bias is not None:
        y = y + _values(bias)
    return y.reshape(len(x), -1, config.head_dim)


def _rotate(config: ModelConfig, heads: Float64) -> Float64:
    """Complex form: pair i is the number x_i + j·x_(i+half), turned by position × frequency."""
    half = config.head_dim // 2
    angles = np.arange(len(heads))[:, None] * np.array([_frequency(config, i) for i in range(half)])
    turned: NDArray[Any] = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * angles)[
        :, None
    ]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _frequency(config: ModelConfig, pair: int) -> float:
    """Scaled frequency of one pair; "llama3" in the wavelength form of the model card."""
    frequency = float(config.rope_theta ** (-2.0 * pair / config.head_dim))
    scaling = config.rope_scaling
    if scaling is None:
        return frequency
    if scaling.frequency_divisors is not None:
        return frequency / scaling.frequency_divisors[pair]
    if scaling.kind == "linear":
        return frequency / scaling.factor
    wavelength = 2 * math.pi / frequency
    if wavelength < scaling.original_context_length / scaling.high_freq_factor:
        return frequency
    if wavelength > scaling.original_context_length / scaling.low_freq_factor:
        return frequency / scaling.factor
    smooth = scaling.original_context_length / wavelength - scaling.low_freq_factor
    smooth /= scaling.high_freq_factor - scaling.low_freq_factor
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency
