"""The target's weights as float32 tensors: what a drafter shares, or begins from."""

from __future__ import annotations

import torch
from torch import Tensor

from oneglance.checkpoints.base import LayerWeights, ModelWeights
from oneglance.checkpoints.base import Tensor as StoredTensor

NORMS = {
    "input_norm": "input_layernorm.weight",
    "post_attention_norm": "post_attention_layernorm.weight",
}
MATRICES = {
    "q_proj": "self_attn.q_proj.weight",
    "k_proj": "self_attn.k_proj.weight",
    "v_proj": "self_attn.v_proj.weight",
    "o_proj": "self_attn.o_proj.weight",
    "gate_proj": "mlp.gate_proj.weight",
    "up_proj": "mlp.up_proj.weight",
    "down_proj": "mlp.down_proj.weight",
}
OPTIONAL = {
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
}
LAYER_NAMES = NORMS | MATRICES | OPTIONAL
"""Field of `LayerWeights` to the name of the parameter in a module's layer."""


def dequantized(tensor: StoredTensor) -> Tensor:
    """The values as float32, a copy."""
    return torch.from_numpy(tensor.dequantize())


def embedding_and_head(weights: ModelWeights) -> tuple[Tensor, Tensor]:
    """[V, D] each, rows of padding included; the same tensor where the model ties them."""
    embedding = dequantized(weights.embedding)
    if weights.head is weights.embedding:
        return embedding, embedding
    return embedding, dequantized(weights.head)


def layer_tensors(layer: LayerWeights) -> dict[str, Tensor]:
    """A layer's weights by the names of a module's parameters."""
    stored = {name: getattr(layer, field) for field, name in LAYER_NAMES.items()}
    return {name: dequantized(tensor) for name, tensor in stored.items() if tensor is not None}


def narrowed_mlp(layer: dict[str, Tensor], size: int) -> dict[str, Tensor]:
    """The feed-forward part with the `size` inner values that can add most.

    Args:
        layer: as `layer_tensors` returns it.
        size: inner values to keep; all of them if there are no more.
    """
    gate, up, down = (layer[f"mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
    reach = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
    kept = reach.argsort(descending=True, stable=True)[:size].sort().values
    return {
        "mlp.gate_proj.weight": gate[kept],
        "mlp.up_proj.weight": up[kept],
        "mlp.down_proj.weight": down[:, kept],
    }
