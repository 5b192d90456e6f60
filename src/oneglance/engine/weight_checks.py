"""Whether weights fit their configuration; what engines of every kind check when they load."""

from __future__ import annotations

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig
from oneglance.errors import CheckpointError


def check_num_layers(config: ModelConfig, weights: ModelWeights) -> None:
    """Refuses weights with another number of layers than the configuration says.

    Raises:
        CheckpointError: the numbers differ.
    """
    if len(weights.layers) != config.num_layers:
        raise CheckpointError(
            f"The checkpoint has {len(weights.layers)} layers, but its configuration says "
            f"{config.num_layers}; it is incomplete or damaged."
        )


def with_shape(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Returns the tensor if it has the shape that the configuration demands.

    Raises:
        CheckpointError: it has another one.
    """
    if tuple(tensor.shape) != shape:
        raise CheckpointError(
            f"Tensor {tensor.name!r} has shape {tuple(tensor.shape)}, but the configuration "
            f"demands {shape}; the checkpoint is damaged or of another architecture."
        )
    return tensor


def vocabulary_matrix(tensor: Tensor, config: ModelConfig) -> Tensor:
    """[at least vocab_size, D]; a matrix may be padded beyond the vocabulary.

    Raises:
        CheckpointError: it has fewer rows, or rows of another size.
    """
    return with_shape(tensor, (max(config.vocab_size, tensor.shape[0]), config.hidden_size))


def qkv_biases(config: ModelConfig, layer: LayerWeights) -> list[Tensor]:
    """The biases of queries, keys and values; empty where the architecture has none.

    Raises:
        CheckpointError: some are missing, superfluous or of a wrong shape.
    """
    kv_size = config.num_kv_heads * config.head_dim
    sizes = (config.num_heads * config.head_dim, kv_size, kv_size)
    biases = _all_or_none(layer, (layer.q_bias, layer.k_bias, layer.v_bias), config.has_qkv_bias)
    return [with_shape(bias, (size,)) for bias, size in zip(biases, sizes, strict=False)]


def qk_norms(config: ModelConfig, layer: LayerWeights) -> list[Tensor]:
    """The norms of query and key heads; empty where the architecture has none.

    Raises:
        CheckpointError: some are missing, superfluous or of a wrong shape.
    """
    norms = _all_or_none(layer, (layer.q_norm, layer.k_norm), config.has_qk_norm)
    return [with_shape(norm, (config.head_dim,)) for norm in norms]


def _all_or_none(
    layer: LayerWeights, tensors: tuple[Tensor | None, ...], is_expected: bool
) -> list[Tensor]:
    """All of them if they are expected, none otherwise; anything else is a damaged file."""
    present = [tensor for tensor in tensors if tensor is not None]
    num_expected = len(tensors) if is_expected else 0
    if len(present) != num_expected:
        raise CheckpointError(
            f"The layer of {layer.q_proj.name!r} has {len(present)} of its biases or head norms, "
            f"but the configuration demands {num_expected}; the checkpoint is damaged or of "
            "another architecture."
        )
    return present
