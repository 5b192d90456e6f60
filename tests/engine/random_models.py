"""Tiny models with random weights, one for each flavour of architecture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig, RopeScaling

TINY_CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=97,
    hidden_size=32,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    intermediate_size=48,
    context_length=256,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
)

FLAVOURS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_tied": {"has_tied_head": True},
    "llama_multi_query": {"num_kv_heads": 1},
    "mistral": {"architecture": "mistral", "num_kv_heads": 4, "rope_theta": 1e6},
    "qwen2": {"architecture": "qwen2", "has_qkv_bias": True, "has_tied_head": True},
    "qwen3": {"architecture": "qwen3", "has_qk_norm": True, "head_dim": 20, "rms_norm_eps": 1e-6},
    "linear_rope": {"rope_scaling": RopeScaling(kind="linear", factor=4.0)},
    "llama3_rope": {
        "rope_theta": 500_000.0,
        "rope_scaling": RopeScaling(kind="llama3", factor=8.0, original_context_length=512),
    },
    "stored_divisors": {
        "rope_scaling": RopeScaling(
            kind="llama3", factor=8.0, frequency_divisors=(1.0, 1.5, 4.0, 8.0)
        )
    },
}
"""Overrides of `TINY_CONFIG` that together cover every branch of the family."""


def random_model(seed: int, **config_overrides: Any) -> tuple[ModelConfig, ModelWeights]:
    """A tiny model whose float32 weights are drawn from `seed`.

    Args:
        seed: of the weights; the same seed and overrides give the same model.
        **config_overrides: fields of `ModelConfig` that differ from `TINY_CONFIG`.

    Returns:
        The configuration and weights of the shapes it demands. Logits vary by a few units, so
        that the model has clear preferences.
    """
    config = replace(TINY_CONFIG, **config_overrides)
    rng = np.random.default_rng(seed)
    embedding = _matrix(rng, "embedding", config.vocab_size, config.hidden_size, scale=1.0)
    layers = tuple(_random_layer(rng, config, index) for index in range(config.num_layers))
    final_norm = _norm(rng, "final_norm", config.hidden_size)
    head = embedding
    if not config.has_tied_head:
        head = _matrix(rng, "head", config.vocab_size, config.hidden_size)
    return config, ModelWeights(embedding, layers, final_norm, head)


def _random_layer(rng: np.random.Generator, config: ModelConfig, index: int) -> LayerWeights:
    hidden, inner = config.hidden_size, config.intermediate_size
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    prefix = f"layers.{index}."
    optional: dict[str, Tensor] = {}
    if config.has_qkv_bias:
        optional["q_bias"] = _vector(rng, prefix + "q_bias", q_size)
        optional["k_bias"] = _vector(rng, prefix + "k_bias", kv_size)
        optional["v_bias"] = _vector(rng, prefix + "v_bias", kv_size)
    if config.has_qk_norm:
        optional["q_norm"] = _norm(rng, prefix + "q_norm", config.head_dim)
        optional["k_norm"] = _norm(rng, prefix + "k_norm", config.head_dim)
    return LayerWeights(
        input_norm=_norm(rng, prefix + "input_norm", hidden),
        q_proj=_matrix(rng, prefix + "q_proj", q_size, hidden),
        k_proj=_matrix(rng, prefix + "k_proj", kv_size, hidden),
        v_proj=_matrix(rng, prefix + "v_proj", kv_size, hidden),
        o_proj=_matrix(rng, prefix + "o_proj", hidden, q_size),
        post_attention_norm=_norm(rng, prefix + "post_attention_norm", hidden),
        gate_proj=_matrix(rng, prefix + "gate_proj", inner, hidden),
        up_proj=_matrix(rng, prefix + "up_proj", inner, hidden),
        down_proj=_matrix(rng, prefix + "down_proj", hidden, inner),
        **optional,
    )


def _tensor(name: str, values: np.ndarray[Any, np.dtype[np.float64]]) -> Tensor:
    return Tensor(name, values.shape, "F32", np.ascontiguousarray(values, dtype=np.float32))


def _matrix(
    rng: np.random.Generator, name: str, outputs: int, inputs: int, scale: float = 1.5
) -> Tensor:
    """A matrix that maps unit variance to variance scale²."""
    return _tensor(name, rng.standard_normal((outputs, inputs)) * (scale / np.sqrt(inputs)))


def _vector(rng: np.random.Generator, name: str, size: int) -> Tensor:
    return _tensor(name, rng.standard_normal(size) * 0.5)


def _norm(rng: np.random.Generator, name: str, size: int) -> Tensor:
    return _tensor(name, 1.0 + 0.2 * rng.standard_normal(size))
