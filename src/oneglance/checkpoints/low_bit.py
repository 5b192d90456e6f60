"""A model again with 4-bit weights, and whether that would be any smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from oneglance.checkpoints.base import FLOAT_TYPES, LayerWeights, ModelWeights, Tensor
from oneglance.checkpoints.ggml_types import TENSOR_TYPES
from oneglance.checkpoints.requantize import GROUP, LOW_BIT_TYPE, requantize
from oneglance.config import WeightsForm
from oneglance.types import ProgressCallback

MAX_KEPT_BITS = 5.0
"""A matrix with at most so many bits a weight is kept: other 4-bit types gain too little."""
FORM_BITS: dict[WeightsForm, float] = {"auto": 8.5, "bf16": 16.0, "f32": 32.0}
"""What a weight takes in memory that is a float in the file."""
FILE_BITS = {kind.name: 8 * kind.block_bytes / kind.block_size for kind in TENSOR_TYPES.values()}
"""What a weight takes in the file, scales included."""


def bits_per_weight(tensor: Tensor, form: WeightsForm) -> float:
    """What a weight of a matrix takes in memory, and so what a pass reads of it.

    Args:
        tensor: as the file has it.
        form: what becomes of weights that are floats in the file.
    """
    if tensor.quantization in FLOAT_TYPES:
        return FORM_BITS[form]
    return FILE_BITS[tensor.quantization]


def pass_bits(weights: ModelWeights, form: WeightsForm, is_low_bit: bool = False) -> float:
    """What a pass reads of the matrices: those of every layer, and the head.

    Args:
        weights: as the file has them.
        form: what becomes of weights that are floats in the file.
        is_low_bit: of the copy that `low_bit_weights` would make, instead of the model.
    """
    layers = sum(_layer_bits(layer, form, is_low_bit) for layer in weights.layers)
    return layers + _matrix_bits(weights.head, form, is_low_bit)


def layer_share(weights: ModelWeights, form: WeightsForm) -> float:
    """The part of what a pass reads that one layer of average size is."""
    layers = sum(_layer_bits(layer, form, is_low_bit=False) for layer in weights.layers)
    return layers / len(weights.layers) / pass_bits(weights, form)


def low_bit_weights(
    weights: ModelWeights, form: WeightsForm, progress: ProgressCallback | None = None
) -> ModelWeights:
    """Every matrix with more than 5 bits a weight again in 4 bits; norms and biases are kept.

    Args:
        weights: as the file has them.
        form: what becomes of weights that are floats in the file.
        progress: called with ("make 4-bit copy", units done, units in all).

    Raises:
        CheckpointError: a weight is not finite.
    """

    def smaller(tensor: Tensor) -> Tensor:
        return requantize(tensor) if _is_reduced(tensor, form) else tensor

    num_units = len(weights.layers) + 1
    layers = []
    for index, layer in enumerate(weights.layers):
        if progress is not None:
            progress("make 4-bit copy", index + 1, num_units)
        layers.append(_smaller_layer(layer, smaller))
    embedding = smaller(weights.embedding)
    head = embedding if weights.head is weights.embedding else smaller(weights.head)
    if progress is not None:
        progress("make 4-bit copy", num_units, num_units)
    return ModelWeights(embedding, tuple(layers), weights.final_norm, head)


def _is_reduced(tensor: Tensor, form: WeightsForm) -> bool:
    """Whether the copy has this tensor in fewer bits. Some widths have no whole groups."""
    is_matrix = len(tensor.shape) == 2 and tensor.shape[1] % GROUP == 0
    return is_matrix and bits_per_weight(tensor, form) > MAX_KEPT_BITS


def _layer_bits(layer: LayerWeights, form: WeightsForm, is_low_bit: bool) -> float:
    matrices = [each for each in _tensors(layer).values() if len(each.shape) == 2]
    return sum(_matrix_bits(each, form, is_low_bit) for each in matrices)


def _matrix_bits(tensor: Tensor, form: WeightsForm, is_low_bit: bool) -> float:
    is_reduced = is_low_bit and _is_reduced(tensor, form)
    bits = FILE_BITS[LOW_BIT_TYPE] if is_reduced else bits_per_weight(tensor, form)
    return tensor.shape[0] * tensor.shape[1] * bits


def _smaller_layer(layer: LayerWeights, smaller: Callable[[Tensor], Tensor]) -> LayerWeights:
    return replace(layer, **{name: smaller(each) for name, each in _tensors(layer).items()})


def _tensors(layer: LayerWeights) -> dict[str, Tensor]:
    """Those that the layer has, by the names of their fields."""
    every = {field.name: getattr(layer, field.name) for field in fields(layer)}
    return {name: tensor for name, tensor in every.items() if tensor is not None}
