"""config.json of an EAGLE head: what published ones say, and what ours say.

Ours is that of vllm-project/speculators with one more entry, `oneglance`; for EAGLE-1, which that
project stores otherwise, it is SafeAILab's: the configuration of a Llama.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from oneglance.checkpoints.fields import Fields
from oneglance.checkpoints.huggingface import read_config
from oneglance.config import ModelConfig, RopeScaling
from oneglance.heads.eagle_config import EagleConfig, EagleKind, default_feature_layers
from oneglance.heads.folder import OWN

DEFAULT_NUM_SLOTS = 8
"""Tokens a pass of a published parallel head: its files do not say how many it was trained for."""


def parse_config(
    path: Path,
    values: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    target: ModelConfig,
) -> EagleConfig:
    """What config.json and the tensors together say of a head.

    Where they can, the tensors decide: published configurations state defaults of other models.

    Args:
        path: of config.json, for messages.
        values: its content.
        shapes: of the head's tensors, by canonical name.
        target: the model that the head is to draft for.

    Raises:
        CheckpointError: an entry is missing or wrong, or asks for what is not supported.
    """
    fields = Fields(path, values)
    kind = _kind(fields, shapes)
    _refuse_unsupported(fields)
    layer = read_config(_layer_fields(fields), {})
    fc = shapes.get("fc.weight", (0, 0))
    num_features = (fc[-1] - (layer.hidden_size if kind == "eagle1" else 0)) // target.hidden_size
    own = Fields(path, fields.get(OWN) or {})
    has_mask = "mask_hidden" in shapes
    config = EagleConfig(
        kind=kind,
        hidden_size=layer.hidden_size,
        target_hidden_size=target.hidden_size,
        feature_layers=_feature_layers(fields, kind, target.num_layers)[: max(1, num_features)],
        intermediate_size=layer.intermediate_size,
        num_heads=layer.num_heads,
        num_kv_heads=layer.num_kv_heads,
        head_dim=layer.head_dim,
        rms_norm_eps=layer.rms_norm_eps,
        rope_theta=layer.rope_theta,
        rope_scaling=layer.rope_scaling,
        vocab_size=target.vocab_size,
        draft_vocab_size=_draft_vocab_size(shapes, target),
        num_layers=len({name.split(".")[1] for name in shapes if name.startswith("layers.")}),
        norm_before_residual=_norm_before_residual(fields, kind),
        has_fc_bias="fc.bias" in shapes,
        has_qkv_bias="layers.0.self_attn.q_proj.bias" in shapes,
        has_qk_norm="layers.0.self_attn.q_norm.weight" in shapes,
        num_slots=own.positive_int("num_slots", DEFAULT_NUM_SLOTS if has_mask else 1),
        mask_token_id=_mask_token(fields) if has_mask else None,
    )
    return replace(config, vocab_size=shapes.get("embed_tokens.weight", (config.vocab_size,))[0])


def config_values(
    config: EagleConfig, target_name: str, types: Mapping[str, str]
) -> dict[str, Any]:
    """config.json for a head.

    Args:
        config: its shape.
        target_name: of the model that it was trained for.
        types: quantised tensors and their types.
    """
    layer = _layer_values(config)
    own = {"num_slots": config.num_slots, "types": dict(types)}
    if config.kind == "eagle1":
        return layer | {"architectures": ["LlamaForCausalLMEagle"], OWN: own}
    name = "eagle3" if config.num_slots == 1 else "peagle"
    values: dict[str, Any] = {
        "architectures": ["Eagle3Speculator" if config.num_slots == 1 else "PEagleSpeculator"],
        "speculators_model_type": name,
        "transformer_layer_config": layer,
        "draft_vocab_size": config.draft_vocab_size,
        "norm_before_residual": config.norm_before_residual,
        "target_hidden_size": config.target_hidden_size,
        "eagle_aux_hidden_state_layer_ids": list(config.feature_layers),
        "speculators_config": {"algorithm": name, "verifier": {"name_or_path": target_name}},
        OWN: own,
    }
    if config.mask_token_id is not None:
        values["mask_token_id"] = config.mask_token_id
    return values


def _kind(fields: Fields, shapes: Mapping[str, tuple[int, ...]]) -> EagleKind:
    named = fields.get("speculators_model_type")
    if named not in (None, "eagle", "eagle3", "peagle"):
        raise fields.unsupported(f"a head of the type {named!r} is no EAGLE head")
    return "eagle3" if "layers.0.hidden_norm.weight" in shapes else "eagle1"


def _refuse_unsupported(fields: Fields) -> None:
    for key in ("norm_before_fc", "layernorms"):
        if fields.get(key):
            raise fields.unsupported(f"heads with {key!r} are not supported")
    is_speculators = fields.get("speculators_model_type") is not None
    # SpecForge's entry of that name means no more than the norm before the output matrix.
    if is_speculators and fields.get("norm_output"):
        raise fields.unsupported("heads that draft from normalised outputs are not supported")


def _layer_fields(fields: Fields) -> Fields:
    """The entries on the decoder layer, with those that a head need not state."""
    values = fields.get("transformer_layer_config") or fields.values
    if not isinstance(values, Mapping):
        raise fields.wrong("transformer_layer_config", "an object")
    stated = {key: value for key, value in values.items() if value is not None}
    defaults = {"model_type": "llama", "max_position_embeddings": 1, "num_hidden_layers": 1}
    return Fields(fields.path, defaults | stated)


def _feature_layers(fields: Fields, kind: EagleKind, num_layers: int) -> tuple[int, ...]:
    named, shift = fields.get("eagle_aux_hidden_state_layer_ids"), 0
    nested = fields.get("eagle_config")
    if named is None and isinstance(nested, Mapping):
        # SGLang counts a layer's output where the others count what enters a layer.
        named, shift = nested.get("eagle_aux_hidden_state_layer_ids"), 1
    if named is None:
        return default_feature_layers(kind, num_layers)
    is_list = isinstance(named, list) and all(type(layer) is int for layer in named)
    if not is_list or not named or not all(0 <= layer + shift <= num_layers for layer in named):
        raise fields.unsupported(
            f"the feature layers {named!r} are not among the {num_layers} layers of the target"
        )
    return tuple(layer + shift for layer in named)


def _norm_before_residual(fields: Fields, kind: EagleKind) -> bool:
    """What files do not say is what vLLM takes: true for speculators' heads, false for others."""
    is_speculators = fields.get("speculators_model_type") is not None
    return kind == "eagle3" and fields.boolean("norm_before_residual", is_speculators)


def _draft_vocab_size(shapes: Mapping[str, tuple[int, ...]], target: ModelConfig) -> int:
    for name in ("d2t", "lm_head.weight"):
        if name in shapes:
            return shapes[name][0]
    return target.vocab_size


def _mask_token(fields: Fields) -> int:
    for key in ("mask_token_id", "ptd_token_id"):
        value = fields.get(key)
        if type(value) is int and value >= 0:
            return value
    raise fields.wrong("mask_token_id", "a token id")


def _layer_values(config: EagleConfig) -> dict[str, Any]:
    values: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "num_hidden_layers": config.num_layers,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "vocab_size": config.vocab_size,
        "hidden_act": "silu",
        "attention_bias": config.has_qkv_bias,
        "tie_word_embeddings": False,
    }
    if config.rope_scaling is not None:
        values["rope_scaling"] = _rope_values(config.rope_scaling)
    return values


def _rope_values(scaling: RopeScaling) -> dict[str, Any]:
    values: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
        values |= {
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_context_length,
        }
    return values
