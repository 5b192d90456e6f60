"""Names and shapes of an EAGLE head's tensors, and the names that others give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from oneglance.heads.eagle_config import EagleConfig

Item = TypeVar("Item")

IGNORED = ("t2d", "verifier_norm.weight", "verifier_lm_head.weight", "rotary_emb.inv_freq")
"""Ends of names of what follows from the rest, or is a copy of the target's."""
SHARED = ("embed_tokens.weight", "lm_head.weight")
"""What is the target's where a head lacks it."""
OPTIONAL = (*SHARED, "d2t")

LAYER = "layers.{layer}."

OTHER_NAMES = {"midlayer.": "layers.0.", "transformer.": "layers.0.", "fusion_fc.": "fc."}
"""Beginnings of names: SafeAILab's and SpecForge's of EAGLE-3, speculators' of EAGLE-1."""


def canonical(tensors: Mapping[str, Item]) -> dict[str, Item]:
    """The same tensors under the names of this package, those of vllm-project/speculators.

    Some files have a prefix `model.` before all of them. What is of no use is left out.

    Args:
        tensors: by their names in the file.
    """
    result: dict[str, Item] = {}
    for name, tensor in tensors.items():
        short = name.removeprefix("model.")
        for other, ours in OTHER_NAMES.items():
            if short.startswith(other):
                short = ours + short.removeprefix(other)
        if not short.endswith(IGNORED):
            result[short] = tensor
    return result


def tensor_shapes(config: EagleConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a head of this shape may have, in order; see `OPTIONAL`."""
    hidden = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (config.vocab_size, hidden),
        "fc.weight": (hidden, config.fc_inputs),
    }
    if config.has_fc_bias:
        shapes["fc.bias"] = (hidden,)
    for layer in range(config.num_layers):
        shapes |= _layer_shapes(config, layer)
    if config.kind == "eagle3":
        shapes["norm.weight"] = (hidden,)
    shapes["lm_head.weight"] = (config.draft_vocab_size, hidden)
    shapes["d2t"] = (config.draft_vocab_size,)
    if config.num_slots > 1:
        shapes["mask_hidden"] = (1, 1, config.feature_size)
    return shapes


def _layer_shapes(config: EagleConfig, layer: int) -> dict[str, tuple[int, ...]]:
    hidden, inner, is_first = config.hidden_size, config.intermediate_size, layer == 0
    inputs = config.layer_inputs if is_first else hidden
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {}
    if config.kind == "eagle3" or not is_first:
        shapes["input_layernorm.weight"] = (hidden,)
    if config.kind == "eagle3" and is_first:
        shapes["hidden_norm.weight"] = (hidden,)
    for part, size in (("q", q_size), ("k", kv_size), ("v", kv_size)):
        shapes[f"self_attn.{part}_proj.weight"] = (size, inputs)
        if config.has_qkv_bias:
            shapes[f"self_attn.{part}_proj.bias"] = (size,)
    if config.has_qk_norm:
        shapes["self_attn.q_norm.weight"] = (config.head_dim,)
        shapes["self_attn.k_norm.weight"] = (config.head_dim,)
    shapes |= {
        "self_attn.o_proj.weight": (hidden, q_size),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    prefix = LAYER.format(layer=layer)
    return {prefix + name: shape for name, shape in shapes.items()}
