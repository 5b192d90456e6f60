"""The same model with every quantised weight given as float32, as a float checkpoint has them."""

from __future__ import annotations

from dataclasses import fields, replace

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor


def with_float_weights(weights: ModelWeights) -> ModelWeights:
    """Every tensor dequantised; the native engine makes 8-bit groups of them."""
    embedding = _as_float(weights.embedding)
    return ModelWeights(
        embedding=embedding,
        layers=tuple(_float_layer(layer) for layer in weights.layers),
        final_norm=_as_float(weights.final_norm),
        head=embedding if weights.head is weights.embedding else _as_float(weights.head),
    )


def _float_layer(layer: LayerWeights) -> LayerWeights:
    tensors = {field.name: getattr(layer, field.name) for field in fields(layer)}
    return replace(
        layer, **{name: _as_float(tensor) for name, tensor in tensors.items() if tensor is not None}
    )


def _as_float(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, "F32", tensor.dequantize())
