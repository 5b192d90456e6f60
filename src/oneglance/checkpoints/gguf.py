"""Models in GGUF files: metadata to configuration, tensors to weights.

Facts of the format that matter here (llama.cpp, `convert_hf_to_gguf.py`): files of architecture
"llama" (Llama, SmolLM2, Mistral) hold the rows of the query and key matrices in the order of
interleaved rotation, those of "qwen2" and "qwen3" in the order of rotary halves; a model without
`output.weight` ties its head to the embedding; `rope_freqs.weight` holds divisors of the rotary
frequencies (Llama 3.1 scaling).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oneglance.checkpoints.base import Checkpoint, ModelWeights, Tensor
from oneglance.checkpoints.fields import Fields, check_config
from oneglance.checkpoints.gguf_file import GgufFile, read_gguf
from oneglance.checkpoints.gguf_tokenizer import read_chat_template, read_tokenizer
from oneglance.checkpoints.layout import WeightNames, assemble_weights, checked, rotary_halves
from oneglance.config import ModelConfig, RopeScaling
from oneglance.errors import CheckpointError
from oneglance.types import ProgressCallback

ARCHITECTURES = ("llama", "qwen2", "qwen3")
INTERLEAVED_ARCHITECTURES = ("llama",)
ROPE_DIVISORS = "rope_freqs.weight"

NAMES = WeightNames(
    embedding="token_embd.weight",
    final_norm="output_norm.weight",
    head="output.weight",
    layer={
        "input_norm": "blk.{layer}.attn_norm.weight",
        "q_proj": "blk.{layer}.attn_q.weight",
        "k_proj": "blk.{layer}.attn_k.weight",
        "v_proj": "blk.{layer}.attn_v.weight",
        "o_proj": "blk.{layer}.attn_output.weight",
        "post_attention_norm": "blk.{layer}.ffn_norm.weight",
        "gate_proj": "blk.{layer}.ffn_gate.weight",
        "up_proj": "blk.{layer}.ffn_up.weight",
        "down_proj": "blk.{layer}.ffn_down.weight",
        "q_bias": "blk.{layer}.attn_q.bias",
        "k_bias": "blk.{layer}.attn_k.bias",
        "v_bias": "blk.{layer}.attn_v.bias",
        "q_norm": "blk.{layer}.attn_q_norm.weight",
        "k_norm": "blk.{layer}.attn_k_norm.weight",
    },
    # Rotation tables of old files; every program computes them anew.
    ignored=lambda name: name == ROPE_DIVISORS or name.endswith(".attn_rot_embd"),
)

NEUTRAL_VALUES: Mapping[str, float] = {
    "expert_count": 0,
    "attn_logit_softcapping": 0,
    "final_logit_softcapping": 0,
    "logit_scale": 1,
    "residual_scale": 1,
    "embedding_scale": 1,
    "attention.scale": 0,
    "attention.output_scale": 1,
    "attention.clamp_kqv": 0,
    "attention.max_alibi_bias": 0,
    "attention.causal": True,
    "attention.temperature_scale": 0,
    "attention.shared_kv_layers": 0,
    "rope.scaling.attn_factor": 1,
    "use_parallel_residual": False,
}
"""Settings that change the arithmetic, with the value at which they do not."""


def load_gguf(path: Path, name: str, progress: ProgressCallback) -> Checkpoint:
    """Reads a model from a GGUF file; its weights stay in the file and are mapped.

    Args:
        path: the file.
        name: what the user calls the model.
        progress: told after each of three steps.

    Raises:
        CheckpointError: the file is unsound, or the model is of a kind that is not supported.
    """
    what = f"reading {path.name}"
    file = read_gguf(path)
    progress(what, 1, 3)
    config = read_config(file)
    weights = read_weights(file, config)
    progress(what, 2, 3)
    fields = Fields(path, file.metadata)
    tokenizer = read_tokenizer(fields, config.vocab_size)
    template = read_chat_template(fields, tokenizer)
    progress(what, 3, 3)
    return Checkpoint(
        name=name,
        path=path,
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        chat_template=template,
    )


def read_config(file: GgufFile) -> ModelConfig:
    """Shape of the model in a GGUF file.

    A sliding attention window shorter than the context caps the context length, so that it never
    acts: what is computed stays exactly the model's own law.

    Raises:
        CheckpointError: the architecture or one of its settings is not supported.
    """
    fields = Fields(file.path, file.metadata)
    architecture = fields.string("general.architecture")
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{file.path} is of the architecture {architecture!r}. "
            f"Supported are {', '.join(ARCHITECTURES)} (Llama, SmolLM2, Mistral, Qwen2, Qwen3)."
        )
    if (num_parts := fields.get("split.count")) not in (None, 0, 1):
        raise CheckpointError(
            f"{file.path} is one of {num_parts} parts. Merge them with `gguf-split --merge`."
        )
    _refuse_other_arithmetic(fields, architecture)

    def key(name: str) -> str:
        return f"{architecture}.{name}"

    num_heads = fields.positive_int(key("attention.head_count"))
    hidden_size = fields.positive_int(key("embedding_length"))
    context_length = fields.positive_int(key("context_length"))
    window = fields.get(key("attention.sliding_window"))
    if window:
        window = fields.positive_int(key("attention.sliding_window"))
        context_length = min(context_length, window)
    head_dim = _head_dim(fields, architecture, hidden_size, num_heads)
    config = ModelConfig(
        architecture=architecture,
        vocab_size=_num_rows(file),
        hidden_size=hidden_size,
        num_layers=fields.positive_int(key("block_count")),
        num_heads=num_heads,
        num_kv_heads=fields.positive_int(key("attention.head_count_kv"), num_heads),
        head_dim=head_dim,
        intermediate_size=fields.positive_int(key("feed_forward_length")),
        context_length=context_length,
        rms_norm_eps=fields.positive_float(key("attention.layer_norm_rms_epsilon")),
        rope_theta=fields.positive_float(key("rope.freq_base"), 10000.0),
        rope_scaling=_rope_scaling(file, fields, architecture, head_dim),
        has_qkv_bias=architecture == "qwen2" or "blk.0.attn_q.bias" in file.tensors,
        has_qk_norm=architecture == "qwen3",
        has_tied_head=NAMES.head not in file.tensors,
    )
    return check_config(fields, config)


def read_weights(file: GgufFile, config: ModelConfig) -> ModelWeights:
    """Weights of the model in a GGUF file, query and key rows in the order of rotary halves.

    Raises:
        CheckpointError: a tensor is missing, superfluous or of the wrong shape.
    """
    weights = assemble_weights(file.path, config, NAMES, file.tensors)
    if config.architecture not in INTERLEAVED_ARCHITECTURES:
        return weights
    heads = {"q": config.num_heads, "k": config.num_kv_heads}
    layers = []
    for layer in weights.layers:
        moved: dict[str, Any] = {}
        for letter, num_heads in heads.items():
            for field in (f"{letter}_proj", f"{letter}_bias"):
                tensor: Tensor | None = getattr(layer, field)
                if tensor is not None:
                    moved[field] = rotary_halves(tensor, num_heads)
        layers.append(replace(layer, **moved))
    return replace(weights, layers=tuple(layers))


def _refuse_other_arithmetic(fields: Fields, architecture: str) -> None:
    for name, neutral in NEUTRAL_VALUES.items():
        value = fields.get(f"{architecture}.{name}")
        if value is not None and value != neutral:
            raise fields.unsupported(
                f"the setting '{architecture}.{name}' is {value!r}, and this variant of the "
                "architecture is not supported"
            )


def _num_rows(file: GgufFile) -> int:
    """Rows of the embedding, which may be padded beyond the vocabulary."""
    embedding = file.tensors.get(NAMES.embedding)
    if embedding is None or len(embedding.shape) != 2:
        raise CheckpointError(
            f"{file.path} lacks the matrix {NAMES.embedding!r}. "
            "The file is incomplete: download it again."
        )
    return embedding.shape[0]


def _head_dim(fields: Fields, architecture: str, hidden_size: int, num_heads: int) -> int:
    """Values of a head; keys, values and rotation must agree on it."""
    prefix = f"{architecture}."
    if fields.get(prefix + "attention.key_length") is None and hidden_size % num_heads:
        raise fields.wrong(prefix + "attention.head_count", f"a divisor of {hidden_size}")
    head_dim = fields.positive_int(prefix + "attention.key_length", hidden_size // num_heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        if fields.positive_int(prefix + name, head_dim) != head_dim:
            raise fields.unsupported(
                f"'{prefix}{name}' is {fields.get(prefix + name)}, while a head has {head_dim} "
                "values; heads that are rotated only in part, or whose values have another size, "
                "are not supported"
            )
    return head_dim


def _rope_scaling(
    file: GgufFile, fields: Fields, architecture: str, head_dim: int
) -> RopeScaling | None:
    prefix = f"{architecture}.rope."
    kind = fields.get(prefix + "scaling.type") or "none"
    legacy_factor = fields.get(prefix + "scale_linear")
    has_divisors = ROPE_DIVISORS in file.tensors
    if kind not in ("none", "linear"):
        raise fields.unsupported(f"rotary scaling of the type {kind!r} is not supported")
    if kind == "linear" or legacy_factor is not None:
        key = prefix + ("scaling.factor" if kind == "linear" else "scale_linear")
        factor = fields.positive_float(key)
        if has_divisors and factor != 1:
            raise fields.unsupported(f"linear rotary scaling along with {ROPE_DIVISORS!r}")
        if factor != 1:
            return RopeScaling(kind="linear", factor=factor)
    if not has_divisors:
        return None
    tensor = checked(file.path, file.tensors, ROPE_DIVISORS, (head_dim // 2,))
    divisors = tensor.dequantize()
    if not np.all(np.isfinite(divisors) & (divisors > 0)):
        raise fields.unsupported(f"the tensor {ROPE_DIVISORS!r} has values that cannot divide")
    return RopeScaling(
        kind="llama3",
        factor=float(divisors.max()),
        original_context_length=fields.positive_int(
            prefix + "scaling.original_context_length", 8192
        ),
        frequency_divisors=tuple(float(value) for value in divisors),
    )
