"""Models in Hugging Face folders: config.json, safetensors, tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oneglance.checkpoints.base import Checkpoint, Tensor
from oneglance.checkpoints.fields import Fields, check_config
from oneglance.checkpoints.huggingface_tokenizer import read_chat_template, read_tokenizer
from oneglance.checkpoints.layout import WeightNames, assemble_weights
from oneglance.checkpoints.safetensors_file import read_safetensors
from oneglance.config import ModelConfig, RopeScaling
from oneglance.errors import CheckpointError
from oneglance.types import ProgressCallback

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

MISTRAL_WINDOW = 4096
"""Sliding window of a Mistral whose config.json does not mention one (transformers' default)."""
QWEN3_HEAD_DIM = 128
"""Size of a head of a Qwen3 whose config.json does not mention one (transformers' default)."""

NAMES = WeightNames(
    embedding="model.embed_tokens.weight",
    final_norm="model.norm.weight",
    head="lm_head.weight",
    layer={
        "input_norm": "model.layers.{layer}.input_layernorm.weight",
        "q_proj": "model.layers.{layer}.self_attn.q_proj.weight",
        "k_proj": "model.layers.{layer}.self_attn.k_proj.weight",
        "v_proj": "model.layers.{layer}.self_attn.v_proj.weight",
        "o_proj": "model.layers.{layer}.self_attn.o_proj.weight",
        "post_attention_norm": "model.layers.{layer}.post_attention_layernorm.weight",
        "gate_proj": "model.layers.{layer}.mlp.gate_proj.weight",
        "up_proj": "model.layers.{layer}.mlp.up_proj.weight",
        "down_proj": "model.layers.{layer}.mlp.down_proj.weight",
        "q_bias": "model.layers.{layer}.self_attn.q_proj.bias",
        "k_bias": "model.layers.{layer}.self_attn.k_proj.bias",
        "v_bias": "model.layers.{layer}.self_attn.v_proj.bias",
        "q_norm": "model.layers.{layer}.self_attn.q_norm.weight",
        "k_norm": "model.layers.{layer}.self_attn.k_norm.weight",
    },
    # Rotation tables are computed anew; a head that is stored although it is tied is the embedding.
    ignored=lambda name: name.endswith(".rotary_emb.inv_freq") or name == "lm_head.weight",
)


def load_huggingface(folder: Path, name: str, progress: ProgressCallback) -> Checkpoint:
    """Reads a model from a folder; its weights stay in their files and are mapped.

    Args:
        folder: with config.json, model.safetensors or its shards, and tokenizer.json; also read
            are tokenizer_config.json, chat_template.jinja and generation_config.json.
        name: what the user calls the model.
        progress: told after each file of weights, and after the tokenizer.

    Raises:
        CheckpointError: a file is missing or unsound, or the model is of a kind that is not
            supported.
    """
    settings = Fields(folder / "config.json", _read_json(folder / "config.json"))
    _refuse_unsupported(settings)
    tensors = _read_tensors(folder, progress)
    config = read_config(settings, tensors)
    weights = assemble_weights(folder, config, NAMES, tensors)
    tokenizer_json = _read_json(folder / "tokenizer.json")
    tokenizer_config = _read_json(folder / "tokenizer_config.json", is_optional=True)
    generation = _read_json(folder / "generation_config.json", is_optional=True)
    tokenizer = read_tokenizer(
        Fields(folder / "tokenizer.json", tokenizer_json),
        tokenizer_config=tokenizer_config,
        id_settings=[generation, settings.values],
        num_rows=config.vocab_size,
    )
    progress(f"reading {folder.name}", 1, 1)
    return Checkpoint(
        name=name,
        path=folder,
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        chat_template=read_chat_template(folder, tokenizer_config),
    )


def read_config(fields: Fields, tensors: dict[str, Tensor]) -> ModelConfig:
    """Shape of the model that config.json describes.

    A sliding attention window shorter than the context caps the context length, so that it never
    acts: what is computed stays exactly the model's own law.

    Args:
        fields: config.json.
        tensors: of the model, which tell whether a family that may have biases has them.

    Raises:
        CheckpointError: an entry is missing, wrong, or asks for what is not supported.
    """
    model_type = fields.string("model_type")
    num_heads = fields.positive_int("num_attention_heads")
    hidden_size = fields.positive_int("hidden_size")
    own_head_dim = QWEN3_HEAD_DIM if model_type == "qwen3" else hidden_size // num_heads
    if fields.get("head_dim") is None and model_type != "qwen3" and hidden_size % num_heads:
        raise fields.wrong("num_attention_heads", f"a divisor of {hidden_size}")
    rope = _rope_settings(fields)
    config = ModelConfig(
        architecture=model_type,
        vocab_size=fields.positive_int("vocab_size"),
        hidden_size=hidden_size,
        num_layers=fields.positive_int("num_hidden_layers"),
        num_heads=num_heads,
        num_kv_heads=fields.positive_int(
            "num_key_value_heads", num_heads if model_type == "llama" else None
        ),
        head_dim=fields.positive_int("head_dim", own_head_dim),
        intermediate_size=fields.positive_int("intermediate_size"),
        context_length=_context_length(fields, model_type),
        rms_norm_eps=fields.positive_float("rms_norm_eps", 1e-6),
        rope_theta=rope.positive_float("rope_theta", fields.positive_float("rope_theta", 10000.0)),
        rope_scaling=_rope_scaling(rope),
        has_qkv_bias=model_type == "qwen2" or "model.layers.0.self_attn.q_proj.bias" in tensors,
        has_qk_norm=model_type == "qwen3",
        has_tied_head=fields.boolean("tie_word_embeddings", False),
    )
    return check_config(fields, config)


def _refuse_unsupported(fields: Fields) -> None:
    model_type = fields.string("model_type")
    if model_type not in MODEL_TYPES:
        raise CheckpointError(
            f"{fields.path}: the model is of the type {model_type!r}. "
            f"Supported are {', '.join(MODEL_TYPES)} (Llama, SmolLM2, Mistral, Qwen2, Qwen3)."
        )
    if fields.get("quantization_config") is not None:
        raise fields.unsupported(
            "'quantization_config' says that the weights are quantised in a way that is not "
            "supported; GGUF files are"
        )
    activation = fields.get("hidden_act")
    if activation not in (None, "silu", "swish"):
        raise fields.unsupported(f"the activation {activation!r} is not supported, only 'silu'")
    if fields.get("partial_rotary_factor") not in (None, 1, 1.0):
        raise fields.unsupported("heads that are rotated only in part are not supported")


def _context_length(fields: Fields, model_type: str) -> int:
    """Longest context in which the sliding window, if there is one, never acts."""
    context_length = fields.positive_int("max_position_embeddings")
    layer_types = fields.get("layer_types") or []
    unknown = set(layer_types) - {"full_attention", "sliding_attention"}
    if unknown:
        raise fields.unsupported(f"layers of the type {min(unknown)!r} are not supported")
    slides = "sliding_attention" in layer_types
    if model_type == "mistral":
        window = fields.values.get("sliding_window", MISTRAL_WINDOW)
        slides = slides or window is not None
        default = MISTRAL_WINDOW
    else:
        slides = slides or (model_type != "llama" and fields.boolean("use_sliding_window", False))
        default = None
    if not slides:
        return context_length
    return min(context_length, fields.positive_int("sliding_window", default))


def _rope_settings(fields: Fields) -> Fields:
    """The entries on rotation; transformers 5 calls them `rope_parameters`."""
    values = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    if not isinstance(values, dict):
        raise fields.wrong("rope_scaling", "an object or null")
    if any(isinstance(value, dict) for value in values.values()):
        raise fields.unsupported("rotation that differs from layer to layer is not supported")
    return Fields(fields.path, values)


def _rope_scaling(rope: Fields) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=rope.positive_float("factor"))
    if kind == "llama3":
        return RopeScaling(
            kind="llama3",
            factor=rope.positive_float("factor"),
            low_freq_factor=rope.positive_float("low_freq_factor"),
            high_freq_factor=rope.positive_float("high_freq_factor"),
            original_context_length=rope.positive_int("original_max_position_embeddings"),
        )
    raise rope.unsupported(f"rotary scaling of the type {kind!r} is not supported")


def _read_tensors(folder: Path, progress: ProgressCallback) -> dict[str, Tensor]:
    """All tensors of the folder, from one file or from the shards that the index names."""
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.exists():
        tensors = read_safetensors(single)
        progress(f"reading {single.name}", 1, 1)
        return tensors
    if not index.exists():
        raise CheckpointError(
            f"{folder} has neither {SINGLE_FILE} nor {INDEX_FILE}. "
            "Download the model again, or convert its weights to safetensors."
        )
    weight_map = _read_json(index).get("weight_map")
    is_map = isinstance(weight_map, dict) and all(isinstance(v, str) for v in weight_map.values())
    if not is_map or not weight_map:
        raise CheckpointError(f"{index} has no sound 'weight_map'. Download the model again.")
    tensors = {}
    shards = sorted(set(weight_map.values()))
    for number, shard in enumerate(shards, start=1):
        if Path(shard).name != shard:
            raise CheckpointError(
                f"{index} names the file {shard!r}, which is not in the folder. "
                "Download the model again."
            )
        tensors.update(read_safetensors(folder / shard))
        progress(f"reading {shard}", number, len(shards))
    return tensors


def _read_json(path: Path, is_optional: bool = False) -> dict[str, Any]:
    """The object in a JSON file; an empty one if the file is optional and missing."""
    if is_optional and not path.exists():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}. Name a GGUF file, or a folder that has "
            "config.json, safetensors and tokenizer.json."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not sound JSON. Download the model again.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object. Download the model again.")
    return value
