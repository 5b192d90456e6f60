"""A model again with 4-bit weights, and whether that would be any smaller.

The layers' matrices get 4 bits, the embedding and the head 5: where a model is small and its head
large, 4 bits in the head cost more agreement than in all layers together.
"""

from __future__ import annotations

from dataclasses import fields, replace

from oneglance.checkpoints.base import FLOAT_TYPES, LayerWeights, ModelWeights, Tensor
from oneglance.checkpoints.ggml_types import TENSOR_TYPES
from oneglance.checkpoints.requantize import GROUP, LowBitType, requantize
from oneglance.config import WeightsForm
from oneglance.types import ProgressCallback

LAYER_TYPE: LowBitType = "Q4_1"
HEAD_TYPE: LowBitType = "Q5_1"
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
    return layers + _matrix_bits(weights.head, form, HEAD_TYPE if is_low_bit else None)


def layer_share(weights: ModelWeights, form: WeightsForm) -> float:
    """The part of what a pass reads that one layer of average size is."""
    layers = sum(_layer_bits(layer, form, is_low_bit=False) for layer in weights.layers)
    return layers / len(weights.layers) / pass_bits(weights, form)


def low_bit_weights(
    weights: ModelWeights, form: WeightsForm, progress: ProgressCallback | None = None
) -> ModelWeights:
    """Every matrix that gets smaller by it again in few bits; norms and biases are kept.

    Args:
        weights: as the file has them.
        form: what becomes of weights that are floats in the file.
        progress: called with ("make 4-bit copy", units done, units in all).

    Raises:
        CheckpointError: a weight is not finite.
    """
    num_units = len(weights.layers) + 1
    layers = []
    for index, layer in enumerate(weights.layers):
        if progress is not None:
            progress("make 4-bit copy", index + 1, num_units)
        layers.append(_smaller_layer(layer, form))
    embedding = _smaller(weights.embedding, HEAD_TYPE, form)
    is_tied = weights.head is weights.embedding
    head = embedding if is_tied else _smaller(weights.head, HEAD_TYPE, form)
    if progress is not None:
        progress("make 4-bit copy", num_units, num_units)
    return ModelWeights(embedding, tuple(layers), weights.final_norm, head)


def _is_reduced(tensor: Tensor, quantization: LowBitType, form: WeightsForm) -> bool:
    """Whether the type takes less than the tensor does. Some widths have no whole groups."""
    is_matrix = len(tensor.shape) == 2 and tensor.shape[1] % GROUP == 0
    return is_matrix and bits_per_weight(tensor, form) > FILE_BITS[quantization]


def _layer_bits(layer: LayerWeights, form: WeightsForm, is_low_bit: bool) -> float:
    matrices = [each for each in _tensors(layer).values() if len(each.shape) == 2]
    return sum(_matrix_bits(each, form, LAYER_TYPE if is_low_bit else None) for each in matrices)


def _matrix_bits(tensor: Tensor, form: WeightsForm, quantization: LowBitType | None) -> float:
    bits = bits_per_weight(tensor, form)
    if quantization is not None and _is_reduced(tensor, quantization, form):
        bits = FILE_BITS[quantization]
    return tensor.shape[0] * tensor.shape[1] * bits


def _smaller_layer(layer: LayerWeights, form: WeightsForm) -> LayerWeights:
    tensors = _tensors(layer).items()
    return replace(layer, **{name: _smaller(each, LAYER_TYPE, form) for name, each in tensors})


def _smaller(tensor: Tensor, quantization: LowBitType, form: WeightsForm) -> Tensor:
    return requantize(tensor, quantization) if _is_reduced(tensor, quantization, form) else tensor


def _tensors(layer: LayerWeights) -> dict[str, Tensor]:
    """Those that the layer has, by the names of their fields."""
    every = {field.name: getattr(layer, field.name) for field in fields(layer)}
    return {name: tensor for name, tensor in every.items() if tensor is not None}
