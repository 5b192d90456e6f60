"""Writes tiny random models, the same weights as a GGUF file or as a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Ids 0, 1 and 2; the last one ends a turn."""

MERGES = ("Ġ t", "h e", "i n", "Ġt he", "a n", "r e", "o n", "Ġ a", "an d", "in g", "Ġ Ġ", "l l")
"""Merges of the byte-level vocabulary, best first."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

RANDOM_BLOCKS = {"Q4_K": (144, (0, 2)), "Q5_K": (176, (0, 2)), "Q6_K": (210, (208,))}
"""Types that `gguf` cannot quantise to: bytes per block of 256, offsets of the float16 scales."""

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Name of a layer's weight in a Hugging Face folder to its name in a GGUF file."""


@dataclass(frozen=True)
class TinyShape:
    """Dimensions of a tiny model; `vocab_padding` is a number of rows beyond the vocabulary."""

    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    intermediate_size: int = 128
    context_length: int = 256
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    has_tied_head: bool = True
    vocab_padding: int = 0

    @property
    def num_rows(self) -> int:
        """Rows of the embedding."""
        return len(vocabulary()) + self.vocab_padding


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in a byte-level vocabulary (GPT-2), by byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + index) for index, byte in enumerate(others)})
    return [table[byte] for byte in range(256)]


def vocabulary() -> list[str]:
    """Tokens by id: control tokens, bytes, merged tokens."""
    return [*CONTROL_TOKENS, *byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES)]


def tiny_weights(
    architecture: str, seed: int = 0, shape: TinyShape | None = None
) -> dict[str, NDArray[np.float32]]:
    """Random weights under their Hugging Face names, rows in rotary-halves order."""
    shape = shape or TinyShape()
    rng = np.random.default_rng(seed)
    hidden, inner = shape.hidden_size, shape.intermediate_size
    query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        values: NDArray[np.float64] = rng.standard_normal((rows, columns)) / np.sqrt(columns)
        return values.astype(np.float32)

    def vector(size: int, centre: float) -> NDArray[np.float32]:
        values: NDArray[np.float64] = centre + 0.2 * rng.standard_normal(size)
        return values.astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(shape.num_rows, hidden) * np.float32(8)}
    for index in range(shape.num_layers):
        prefix = f"model.layers.{index}."
        layer = {
            "input_layernorm.weight": vector(hidden, 1),
            "self_attn.q_proj.weight": matrix(query, hidden) * np.float32(2),
            "self_attn.k_proj.weight": matrix(key, hidden) * np.float32(2),
            "self_attn.v_proj.weight": matrix(key, hidden),
            "self_attn.o_proj.weight": matrix(hidden, query),
            "post_attention_layernorm.weight": vector(hidden, 1),
            "mlp.gate_proj.weight": matrix(inner, hidden),
            "mlp.up_proj.weight": matrix(inner, hidden),
            "mlp.down_proj.weight": matrix(hidden, inner),
        }
        if architecture == "qwen2":
            layer["self_attn.q_proj.bias"] = vector(query, 0)
            layer["self_attn.k_proj.bias"] = vector(key, 0)
            layer["self_attn.v_proj.bias"] = vector(key, 0)
        if architecture == "qwen3":
            layer["self_attn.q_norm.weight"] = vector(shape.head_dim, 1)
            layer["self_attn.k_norm.weight"] = vector(shape.head_dim, 1)
        weights.update({prefix + name: value for name, value in layer.items()})
    weights["model.norm.weight"] = vector(hidden, 1)
    if not shape.has_tied_head:
        weights["lm_head.weight"] = matrix(shape.num_rows, hidden)
    return weights


def interleave_rotary(rows: NDArray[Any], num_heads: int) -> NDArray[Any]:
    """Moves row i and row i + head_dim / 2 of each head next to each other, as GGUF Llama has."""
    halves = rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def gguf_name(name: str) -> str:
    """Name in a GGUF file of a weight with this Hugging Face name."""
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, index, rest = name.split(".", 3)
    stem, _, kind = rest.rpartition(".")
    return f"blk.{index}.{LAYER_NAMES[stem]}.{kind}"


def write_tiny_gguf(
    path: Path,
    architecture: str = "llama",
    quantization: str = "F32",
    seed: int = 0,
    shape: TinyShape | None = None,
    metadata: Mapping[str, Any] | None = None,
    extra_tensors: Mapping[str, NDArray[np.float32]] | None = None,
) -> Path:
    """Writes a tiny random model as a GGUF file and returns its path.

    Args:
        path: file to write.
        architecture: "llama", "mistral" (which GGUF calls llama), "qwen2" or "qwen3".
        quantization: type of the matrices; vectors are F32. "Q4_K", "Q5_K" and "Q6_K" get random
            blocks (and need sizes that are multiples of 256), others the seed's weights.
        seed: of the weights.
        shape: dimensions.
        metadata: further keys, or other values for the usual ones; None leaves a key out.
        extra_tensors: further tensors.
    """
    shape = shape or TinyShape()
    family = "llama" if architecture == "mistral" else architecture
    writer = GGUFWriter(path, family)
    usual = {**_gguf_hyperparameters(family, shape), **_gguf_tokenizer(shape)}
    for key, value in {**usual, **(metadata or {})}.items():
        _add_metadata(writer, key, value)
    rng = np.random.default_rng(seed)
    for name, value in tiny_weights(architecture, seed, shape).items():
        if family == "llama" and ".q_proj." in name:
            value = interleave_rotary(value, shape.num_heads)
        if family == "llama" and ".k_proj." in name:
            value = interleave_rotary(value, shape.num_kv_heads)
        _add_tensor(writer, gguf_name(name), value, quantization, rng)
    for name, value in (extra_tensors or {}).items():
        _add_tensor(writer, name, value, "F32", rng)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tiny_hf(
    folder: Path,
    architecture: str = "llama",
    dtype: str = "F32",
    seed: int = 0,
    shape: TinyShape | None = None,
    num_shards: int = 1,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Writes the same random model as a Hugging Face folder and returns the folder.

    Args:
        folder: made if it does not exist.
        architecture: "llama", "mistral", "qwen2" or "qwen3".
        dtype: "F32", "F16" or "BF16" (cut off after the upper 16 bits).
        seed: of the weights.
        shape: dimensions.
        num_shards: number of safetensors files; more than one gets an index.
        config: further entries of config.json, or other values; None leaves an entry out.
    """
    shape = shape or TinyShape()
    folder.mkdir(parents=True, exist_ok=True)
    entries = {**_hf_config(architecture, shape), **(config or {})}
    _write_json(folder / "config.json", {k: v for k, v in entries.items() if v is not None})
    _write_json(folder / "tokenizer.json", _hf_tokenizer())
    _write_json(
        folder / "tokenizer_config.json",
        {"eos_token": "<|im_end|>", "bos_token": None, "chat_template": CHAT_TEMPLATE},
    )
    _write_json(folder / "generation_config.json", {"eos_token_id": [2, 0]})
    names = list(weights := tiny_weights(architecture, seed, shape))
    if num_shards == 1:
        write_safetensors(folder / "model.safetensors", weights, dtype)
        return folder
    weight_map = {}
    for shard in range(num_shards):
        file_name = f"model-{shard + 1:05d}-of-{num_shards:05d}.safetensors"
        part = {name: weights[name] for name in names[shard::num_shards]}
        write_safetensors(folder / file_name, part, dtype)
        weight_map.update(dict.fromkeys(part, file_name))
    _write_json(folder / "model.safetensors.index.json", {"weight_map": weight_map})
    return folder


def write_safetensors(
    path: Path, tensors: Mapping[str, NDArray[np.float32]], dtype: str = "F32"
) -> None:
    """Writes a safetensors file: length of the header, header, data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    offset = 0
    for name, value in tensors.items():
        if dtype == "BF16":
            chunk = (value.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            chunk = value.astype({"F32": np.float32, "F16": np.float16}[dtype]).tobytes()
        offsets = [offset, offset + len(chunk)]
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": offsets}
        chunks.append(chunk)
        offset += len(chunk)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(chunks))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _gguf_hyperparameters(family: str, shape: TinyShape) -> dict[str, Any]:
    return {
        "general.name": "tiny",
        f"{family}.block_count": shape.num_layers,
        f"{family}.context_length": shape.context_length,
        f"{family}.embedding_length": shape.hidden_size,
        f"{family}.feed_forward_length": shape.intermediate_size,
        f"{family}.attention.head_count": shape.num_heads,
        f"{family}.attention.head_count_kv": shape.num_kv_heads,
        f"{family}.attention.key_length": shape.head_dim,
        f"{family}.attention.value_length": shape.head_dim,
        f"{family}.attention.layer_norm_rms_epsilon": shape.rms_norm_eps,
        f"{family}.rope.freq_base": shape.rope_theta,
        f"{family}.rope.dimension_count": shape.head_dim,
        f"{family}.vocab_size": shape.num_rows,
    }


def _gguf_tokenizer(shape: TinyShape) -> dict[str, Any]:
    tokens = vocabulary()
    num_normal = len(tokens) - len(CONTROL_TOKENS)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [*tokens, *(f"[PAD{i}]" for i in range(shape.vocab_padding))],
        "tokenizer.ggml.token_type": [3] * 3 + [1] * num_normal + [5] * shape.vocab_padding,
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _add_metadata(writer: GGUFWriter, key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _add_tensor(
    writer: GGUFWriter,
    name: str,
    value: NDArray[np.float32],
    quantization: str,
    rng: np.random.Generator,
) -> None:
    kind = GGMLQuantizationType[quantization] if value.ndim == 2 else GGMLQuantizationType.F32
    if kind.name in RANDOM_BLOCKS:
        data = _random_blocks(kind.name, value.shape, rng)
    else:
        data = quantize(value, kind)
    writer.add_tensor(name, data, raw_dtype=kind)


def _random_blocks(
    quantization: str, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Random blocks of a K type, their float16 scales small enough for a tame forward pass."""
    num_bytes, scale_offsets = RANDOM_BLOCKS[quantization]
    rows, columns = shape
    assert columns % 256 == 0, "K types need rows of a multiple of 256"
    blocks = rng.integers(0, 256, (rows, columns // 256, num_bytes), dtype=np.uint8)
    for offset in scale_offsets:
        scales = rng.uniform(1e-5, 1e-4, blocks.shape[:2]).astype(np.float16)
        blocks[:, :, offset : offset + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def _hf_config(architecture: str, shape: TinyShape) -> dict[str, Any]:
    return {
        "architectures": [f"{architecture.capitalize()}ForCausalLM"],
        "model_type": architecture,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": shape.context_length,
        "num_attention_heads": shape.num_heads,
        "num_hidden_layers": shape.num_layers,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": shape.has_tied_head,
        "vocab_size": shape.num_rows,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }


def _hf_tokenizer() -> dict[str, Any]:
    added = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    digits = {"type": "Digits", "individual_digits": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": index, "content": token, **added} for index, token in enumerate(CONTROL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: index for index, token in enumerate(vocabulary())},
            "merges": [merge.split(" ") for merge in MERGES],
        },
    }
