"""The same head as others would publish it, written with their libraries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from tests.heads.random_heads import Pair, arrays_of

Tensors = dict[str, torch.Tensor]
Files = tuple[dict[str, Any], Tensors]


def layer_settings(pair: Pair) -> dict[str, Any]:
    """What every dialect says of the decoder layer; `vocab_size` and so on as usual."""
    config = pair.module.config
    return {
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": 2048,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "hidden_act": "silu",
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": False,
    }


def own_tensors(pair: Pair) -> Tensors:
    return {name: torch.tensor(array) for name, array in arrays_of(pair.module).items()}


def with_vocabulary(pair: Pair, has_embedding: bool) -> Tensors:
    """A head with output rows of its own, the maps between vocabularies, and an embedding."""
    tensors, ids = own_tensors(pair), pair.head.target_ids
    tensors["lm_head.weight"] = pair.module.get_buffer("shared_head").clone()
    if ids is not None:
        tensors["d2t"] = torch.tensor(ids - np.arange(len(ids)))
        tensors["t2d"] = torch.tensor(np.isin(np.arange(pair.config.vocab_size), ids))
    if has_embedding:
        tensors["embed_tokens.weight"] = pair.module.get_buffer("embedding").clone()
    return tensors


def as_midlayer(tensors: Tensors) -> Tensors:
    return {name.replace("layers.0.", "midlayer."): each for name, each in tensors.items()}


def safeai_eagle1(pair: Pair) -> Files:
    tensors = own_tensors(pair) | {
        "embed_tokens.weight": pair.module.get_buffer("embedding").clone()
    }
    return layer_settings(pair) | {"architectures": ["LlamaForCausalLM"]}, tensors


def safeai_eagle3(pair: Pair) -> Files:
    settings = layer_settings(pair) | {"draft_vocab_size": pair.module.config.draft_vocab_size}
    return settings, as_midlayer(with_vocabulary(pair, has_embedding=False))


def specforge_eagle3(pair: Pair) -> Files:
    """With layers of its own choice, counted as SGLang does: what leaves them."""
    settings, tensors = safeai_eagle3(pair)
    layers = [layer - 1 for layer in pair.module.config.feature_layers]
    settings["eagle_config"] = {
        "use_aux_hidden_state": True,
        "eagle_aux_hidden_state_layer_ids": layers,
    }
    return settings | {"norm_output": True}, {f"model.{k}": each for k, each in tensors.items()}


def speculators_eagle1(pair: Pair) -> Files:
    _, tensors = safeai_eagle1(pair)
    renamed = {
        name.replace("layers.0.", "transformer.").replace("fc.", "fusion_fc."): each
        for name, each in tensors.items()
    }
    renamed["lm_head.weight"] = pair.module.get_buffer("shared_head").clone()
    settings = {
        "speculators_model_type": "eagle",
        "transformer_layer_config": layer_settings(pair),
        "layernorms": False,
        "fusion_bias": True,
    }
    return settings, renamed


def speculators_eagle3(pair: Pair) -> Files:
    config = pair.module.config
    settings = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layer_settings(pair),
        "draft_vocab_size": config.draft_vocab_size,
        "norm_before_residual": config.norm_before_residual,
        "eagle_aux_hidden_state_layer_ids": list(config.feature_layers),
        "norm_before_fc": False,
    }
    return settings, with_vocabulary(pair, has_embedding=True)


def speculators_peagle(pair: Pair) -> Files:
    settings, tensors = speculators_eagle3(pair)
    mask = {"speculators_model_type": "peagle", "mask_token_id": pair.module.config.mask_token_id}
    return settings | mask, tensors


Dialect = Callable[[Pair], Files]


def publish(folder: Path, files: Files, as_torch: bool = False) -> Path:
    """Writes such files, in BF16 where the values are such."""
    settings, tensors = files
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    if as_torch:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder
