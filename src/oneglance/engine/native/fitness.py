"""Which models the native engine can run."""

from __future__ import annotations

from oneglance import _native
from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig

HEAD_DIM_MULTIPLE = 16
"""Elements of a head are handled in lanes of so many."""


def matrices(layer: LayerWeights) -> tuple[Tensor, ...]:
    """The seven matrices of a layer."""
    return (
        layer.q_proj,
        layer.k_proj,
        layer.v_proj,
        layer.o_proj,
        layer.gate_proj,
        layer.up_proj,
        layer.down_proj,
    )


def why_unfit(config: ModelConfig, weights: ModelWeights) -> str | None:
    """Why the native engine cannot run a model; None if it can.

    Args:
        config: shape of the model.
        weights: as the file has them.
    """
    if config.head_dim % HEAD_DIM_MULTIPLE != 0:
        return f"its heads have {config.head_dim} elements, no multiple of {HEAD_DIM_MULTIPLE}"
    every = [weights.embedding, weights.head]
    for layer in weights.layers:
        every += matrices(layer)
    for tensor in every:
        reason = _native.why_unpackable(tensor.quantization, tensor.shape[-1])
        if reason:
            return f"its tensor {tensor.name!r} cannot be packed ({reason})"
    return None
