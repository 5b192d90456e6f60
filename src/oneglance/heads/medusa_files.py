"""Reads and writes the folders of Medusa heads: config.json, the tensors, where they come from.

Read are the folders of FasterDecoding/Medusa, in PyTorch's form or as safetensors, and ours, which
has the same names; see docs/decisions/017-medusa-heads.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.safetensors_file import ALL_DTYPES, read_safetensors
from oneglance.config import ModelConfig
from oneglance.errors import CheckpointError
from oneglance.heads.folder import (
    CONFIG_FILE,
    OWN,
    HeadForm,
    read_json,
    stored_matrix,
    unpacked,
    write_head,
)
from oneglance.heads.medusa import MedusaConfig, MedusaWeights, medusa_weights
from oneglance.heads.torch_file import read_torch_file
from oneglance.types import Float32Array, IntArray

WEIGHTS_FILE = "medusa_lm_head.safetensors"
OTHER_WEIGHTS_FILE = "model.safetensors"
TORCH_FILE = "medusa_lm_head.pt"


def read_medusa(folder: Path, target: ModelConfig) -> MedusaWeights:
    """Reads heads for a target.

    Of config.json only the types of packed matrices are read: the shape follows from the tensors.

    Args:
        folder: with medusa_lm_head.safetensors, model.safetensors or medusa_lm_head.pt.
        target: shape of the model that they are to draft for.

    Raises:
        CheckpointError: a file is missing or unsound, or the heads do not fit the target.
        UnsupportedError: the file needs PyTorch to be read.
    """
    tensors = _read_tensors(folder)
    types: Mapping[str, str] = {}
    if (folder / CONFIG_FILE).exists():
        types = (read_json(folder / CONFIG_FILE).get(OWN) or {}).get("types") or {}
    named = {name: unpacked(tensor, types.get(name)) for name, tensor in tensors.items()}
    return medusa_weights(named, target.hidden_size, target.vocab_size)


def write_medusa(
    folder: Path,
    config: MedusaConfig,
    arrays: Mapping[str, Float32Array],
    target_ids: IntArray | None,
    provenance: Mapping[str, object],
    form: HeadForm = "F16",
    target_name: str = "",
) -> None:
    """Writes heads; every file appears whole or not at all.

    Args:
        folder: made if it is missing.
        config: their shape.
        arrays: their tensors by the names of `heads/medusa.py`, without d2t.
        target_ids: [V_d] the target's id of each token of the draft vocabulary, ascending; None:
            the two vocabularies are one.
        provenance: command, versions, hashes of data and so on, for provenance.json.
        form: what becomes of matrices; rows whose width is no multiple of 32 are F16 where groups
            are asked for.
        target_name: of the model that they were trained for.

    Raises:
        CheckpointError: a weight is not finite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, NDArray[Any]] = {
        name: stored_matrix(name, array, form) for name, array in arrays.items()
    }
    types = {name: form for name, array in stored.items() if array.dtype == np.uint8}
    values = _config_values(config, target_name, types)
    write_head(folder / WEIGHTS_FILE, stored, target_ids, provenance, values)


def _config_values(
    config: MedusaConfig, target_name: str, types: Mapping[str, str]
) -> dict[str, object]:
    return {
        "base_model_name_or_path": target_name,
        "medusa_num_heads": config.num_heads,
        "medusa_num_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "draft_vocab_size": config.draft_vocab_size,
        OWN: {"types": dict(types)},
    }


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    for name in (WEIGHTS_FILE, OTHER_WEIGHTS_FILE):
        if (folder / name).exists():
            return read_safetensors(folder / name, ALL_DTYPES)
    if (folder / TORCH_FILE).exists():
        return read_torch_file(folder / TORCH_FILE)
    raise CheckpointError(
        f"{folder} has none of {WEIGHTS_FILE}, {OTHER_WEIGHTS_FILE} and {TORCH_FILE}; name the "
        "folder of trained Medusa heads."
    )
