"""Tiny random models of each flavour that the native engine can run, with quantised matrices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import quantize

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import EngineConfig, ModelConfig, RopeScaling
from oneglance.engine.native.engine import NativeEngine
from tests.engine.random_models import FLAVOURS, random_model

SHAPE: dict[str, Any] = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96}
STORED_DIVISORS = RopeScaling(
    kind="llama3", factor=8.0, frequency_divisors=(1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0)
)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Q4_1", {}),
    "llama_tied": ("Q8_0", {}),
    "llama_multi_query": ("Q4_0", {}),
    "mistral": ("F16", {}),
    "qwen2": ("Q5_1", {}),
    "qwen3": ("Q5_0", {"head_dim": 32}),
    "linear_rope": ("F32", {}),
    "llama3_rope": ("Q8_0", {}),
    "stored_divisors": ("Q4_1", {"rope_scaling": STORED_DIVISORS}),
    "qwen2_untied": ("F32", {"has_qkv_bias": True}),
    "qwen3_tied": ("BF16", {"has_tied_head": True, "has_qk_norm": True}),
    "mixed": ("Q4_0, F32 and F16", {}),
}
"""For each flavour the type of its matrices, and what differs from `SHAPE`."""
QUANTIZED = tuple(name for name, (kind, _) in MODELS.items() if kind[0] == "Q" and " " not in kind)
KEPT = {
    "mistral": "bf16",
    "linear_rope": "f32",
    "qwen2_untied": "bf16",
    "qwen3_tied": "f32",
    "mixed": "bf16",
}
"""Flavours with float matrices, and the form in which the tests of bits keep those."""


def native_model(flavour: str, **overrides: Any) -> tuple[ModelConfig, ModelWeights]:
    """A random model of a flavour whose matrices have the type that `MODELS` says."""
    quantization, differences = MODELS[flavour]
    shape = {**FLAVOURS.get(flavour, {}), **SHAPE, **differences, **overrides}
    config, weights = random_model(11, **shape)
    return config, quantized(weights, quantization)


def native_engine(
    model: str = "llama", page_size: int = 4, isa: str | None = None, **sizes: Any
) -> NativeEngine:
    """An engine of such a model; `kept MODEL` keeps its floats as `KEPT` says."""
    if model.startswith("kept "):
        model = model.removeprefix("kept ")
        sizes["weights"] = KEPT[model]
    return NativeEngine(*native_model(model), EngineConfig(page_size, **sizes), isa=isa)


def quantized(weights: ModelWeights, quantization: str) -> ModelWeights:
    """The same model with every matrix in another type; of several they take turns."""
    kinds = quantization.replace(" and ", ", ").split(", ")
    turns = itertools.cycle(kinds)
    embedding = _quantized(weights.embedding, next(turns))
    is_tied = weights.head is weights.embedding
    return ModelWeights(
        embedding=embedding,
        layers=tuple(_quantized_layer(layer, turns) for layer in weights.layers),
        final_norm=weights.final_norm,
        head=embedding if is_tied else _quantized(weights.head, next(turns)),
    )


def _quantized_layer(layer: LayerWeights, turns: Iterator[str]) -> LayerWeights:
    tensors = {item.name: getattr(layer, item.name) for item in fields(layer)}
    matrices = {name: value for name, value in tensors.items() if name.endswith("_proj")}
    return replace(layer, **{n: _quantized(v, next(turns)) for n, v in matrices.items()})


def _quantized(tensor: Tensor, quantization: str) -> Tensor:
    values = tensor.dequantize()
    if quantization in ("F32", "F16"):
        data = values.astype(np.float32 if quantization == "F32" else np.float16)
    else:
        data = quantize(values, GGMLQuantizationType[quantization])
    if quantization == "BF16":
        data = data.view(np.uint16).reshape(tensor.shape)
    return Tensor(tensor.name, tensor.shape, quantization, data)
