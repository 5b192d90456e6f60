"""Writes a distilled model in the format of its target: a GGUF file or a Hugging Face folder.

What the small model shares with the target (vocabulary, chat template, embedding, output matrix)
is copied as it is, so that no other program is needed to make it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

from oneglance.checkpoints import gguf as gguf_names
from oneglance.checkpoints import huggingface as huggingface_names
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.layout import LAYER_PLACEHOLDER, WeightNames
from oneglance.checkpoints.safetensors_writer import write_safetensors
from oneglance.config import ModelConfig
from oneglance.heads.folder import PROVENANCE_FILE, write_json
from oneglance.train.answers import UNFINISHED
from oneglance.train.target_weights import LAYER_NAMES
from oneglance.types import Float32Array

GGUF_FILE = "draft.gguf"
WEIGHTS_FILE = "model.safetensors"
COPIED_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)


def write_draft(
    folder: Path,
    target: Checkpoint,
    weights: Mapping[str, Float32Array],
    num_layers: int,
    provenance: Mapping[str, object],
) -> Path:
    """Writes a model that `draft:PATH` loads.

    Args:
        folder: made if it is missing.
        target: whose vocabulary, embedding and output matrix the model has.
        weights: `layers.I.NAME` and `norm.weight`, as `DraftModule` names them.
        num_layers: of the model.
        provenance: for provenance.json beside it.

    Returns:
        What to put after `draft:`, the file or the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / PROVENANCE_FILE, provenance)
    if target.path.is_dir():
        _write_folder(folder, target, weights, num_layers)
        return folder
    _write_gguf(folder / GGUF_FILE, target, weights, num_layers)
    return folder / GGUF_FILE


def _named(
    weights: Mapping[str, Float32Array], names: WeightNames, num_layers: int
) -> dict[str, Float32Array]:
    """The trained weights under the names of a format."""
    named = {names.final_norm: weights["norm.weight"]}
    for layer in range(num_layers):
        for field, name in LAYER_NAMES.items():
            value = weights.get(f"layers.{layer}.{name}")
            if value is not None:
                named[names.layer[field].replace(LAYER_PLACEHOLDER, str(layer))] = value
    return named


def _write_folder(
    folder: Path, target: Checkpoint, weights: Mapping[str, Float32Array], num_layers: int
) -> None:
    names = huggingface_names.NAMES
    named = {names.embedding: target.weights.embedding.dequantize()}
    named |= _named(weights, names, num_layers)
    if not target.config.has_tied_head:
        named[names.head] = target.weights.head.dequantize()
    for name in COPIED_FILES:
        if (target.path / name).exists():
            shutil.copyfile(target.path / name, folder / name)
    entries: dict[str, Any] = json.loads((target.path / "config.json").read_bytes())
    if isinstance(entries.get("layer_types"), list):
        entries["layer_types"] = entries["layer_types"][:num_layers]
    write_json(folder / "config.json", {**entries, "num_hidden_layers": num_layers})
    stored = {
        name: value.astype(np.float16 if value.ndim == 2 else np.float32)
        for name, value in named.items()
    }
    write_safetensors(folder / WEIGHTS_FILE, stored)


def _write_gguf(
    path: Path, target: Checkpoint, weights: Mapping[str, Float32Array], num_layers: int
) -> None:
    reader = GGUFReader(target.path)
    architecture = str(reader.fields["general.architecture"].contents())
    unfinished = path.with_name(path.name + UNFINISHED)
    writer = GGUFWriter(unfinished, architecture)
    _copy_metadata(reader, writer, {f"{architecture}.block_count": num_layers})
    names = gguf_names.NAMES
    for tensor in reader.tensors:
        if tensor.name in (names.embedding, names.head, gguf_names.ROPE_DIVISORS):
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for name, value in _named(weights, names, num_layers).items():
        stored = _as_in_file(name, value, target.config)
        kind = _kind_of(stored)
        writer.add_tensor(name, quantize(stored, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.replace(path)


def _copy_metadata(reader: GGUFReader, writer: GGUFWriter, changed: Mapping[str, int]) -> None:
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue  # the writer says these itself
        kind = entry.types[0]
        item = entry.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, changed.get(name, entry.contents()), kind, sub_type=item)


def _kind_of(value: NDArray[np.float32]) -> GGMLQuantizationType:
    if value.ndim == 1:
        return GGMLQuantizationType.F32
    fits = value.shape[1] % 32 == 0
    return GGMLQuantizationType.Q8_0 if fits else GGMLQuantizationType.F16


def _as_in_file(name: str, value: Float32Array, config: ModelConfig) -> Float32Array:
    """Rows of queries and keys in the order that the file's architecture has."""
    if config.architecture not in gguf_names.INTERLEAVED_ARCHITECTURES:
        return value
    heads = {"attn_q.": config.num_heads, "attn_k.": config.num_kv_heads}
    for part, num_heads in heads.items():
        if f".{part}" in name:
            halves = value.reshape(num_heads, 2, config.head_dim // 2, *value.shape[1:])
            return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(value.shape))
    return value
