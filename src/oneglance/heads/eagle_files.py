"""Reads and writes EAGLE heads: a folder with config.json, the tensors, and where they come from.

Read are the files of SafeAILab (EAGLE-1, -2, -3), vllm-project/speculators and SpecForge; ours is
described in docs/decisions/015-trained-heads.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.safetensors_file import ALL_DTYPES, read_safetensors
from oneglance.config import ModelConfig
from oneglance.errors import CheckpointError, UnsupportedError
from oneglance.heads.eagle_config import EagleConfig
from oneglance.heads.eagle_names import OPTIONAL, canonical, tensor_shapes
from oneglance.heads.eagle_settings import config_values, parse_config
from oneglance.heads.folder import (
    CONFIG_FILE,
    D2T,
    OWN,
    HeadForm,
    read_json,
    stored_matrix,
    unpacked,
    write_head,
)
from oneglance.heads.torch_file import read_torch_file
from oneglance.types import Float32Array, IntArray

WEIGHTS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"


@dataclass(frozen=True)
class EagleHead:
    """A head as its file has it.

    Attributes:
        path: its folder.
        config: its shape.
        tensors: by canonical name (`eagle_names`), all but `d2t`; `embed_tokens.weight` and
            `lm_head.weight` are missing where the head uses the target's.
        target_ids: [V_d] which token of the target each of the draft's is; None: they are the
            same.
    """

    path: Path
    config: EagleConfig
    tensors: Mapping[str, Tensor]
    target_ids: IntArray | None = None


def read_eagle(folder: Path, target: ModelConfig) -> EagleHead:
    """Reads a head for a target.

    Args:
        folder: with config.json and model.safetensors or pytorch_model.bin.
        target: shape of the model that it is to draft for.

    Raises:
        CheckpointError: a file is missing or unsound, or the head is of a kind that is not
            supported.
        UnsupportedError: the head is for another target, or its file needs PyTorch to be read.
    """
    path = folder / CONFIG_FILE
    values = read_json(path)
    stored = canonical(_read_tensors(folder))
    types: Mapping[str, str] = (values.get(OWN) or {}).get("types") or {}
    whole = {name: unpacked(each, types.get(name)) for name, each in stored.items()}
    shapes = {name: each.shape for name, each in whole.items()}
    config = parse_config(path, values, shapes, target)
    if config.num_slots > 1 and (config.mask_token_id or 0) >= config.vocab_size:
        raise _for_another(folder, f"its mask token is {config.mask_token_id}", target)
    offsets = whole.pop(D2T, None)
    tensors = {name: replace(each, name=name) for name, each in whole.items()}
    _check_tensors(folder, config, tensors, target)
    target_ids = None if offsets is None else _target_ids(folder, offsets, target.vocab_size)
    return EagleHead(folder, config, tensors, target_ids)


def write_eagle(
    folder: Path,
    config: EagleConfig,
    arrays: Mapping[str, Float32Array],
    target_ids: IntArray | None,
    provenance: Mapping[str, object],
    form: HeadForm = "F16",
    target_name: str = "",
) -> None:
    """Writes a head; every file appears whole or not at all.

    Args:
        folder: made if it is missing.
        config: its shape.
        arrays: its tensors by canonical name, without d2t; `embed_tokens.weight` and
            `lm_head.weight` are left out to use the target's.
        target_ids: as for `EagleHead`.
        provenance: command, versions, hashes of data and so on, for provenance.json.
        form: what becomes of matrices; rows whose width is no multiple of 32 are F16 where groups
            are asked for.
        target_name: of the model that it was trained for.

    Raises:
        CheckpointError: a weight is not finite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, NDArray[Any]] = {}
    types: dict[str, str] = {}
    for name, shape in tensor_shapes(config).items():
        if name in arrays:
            assert arrays[name].shape == shape, f"{name} is {arrays[name].shape}, not {shape}"
            stored[name] = stored_matrix(name, arrays[name], form)
            if stored[name].dtype == np.uint8:
                types[name] = form
        else:
            assert name in OPTIONAL, f"{name} is missing"
    values = config_values(config, target_name, types)
    write_head(folder / WEIGHTS_FILE, stored, target_ids, provenance, values)


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    if (folder / WEIGHTS_FILE).exists():
        return read_safetensors(folder / WEIGHTS_FILE, ALL_DTYPES)
    if (folder / TORCH_FILE).exists():
        return read_torch_file(folder / TORCH_FILE)
    raise CheckpointError(
        f"{folder} has neither {WEIGHTS_FILE} nor {TORCH_FILE}; name the folder of a trained head."
    )


def _check_tensors(
    folder: Path, config: EagleConfig, tensors: Mapping[str, Tensor], target: ModelConfig
) -> None:
    shapes = tensor_shapes(config)
    for name in tensors:
        if name not in shapes:
            raise CheckpointError(
                f"{folder} has the tensor {name!r}, which no {config.kind} head of this kind has; "
                "choose another head."
            )
    for name, shape in shapes.items():
        if name in tensors and tensors[name].shape != shape:
            what = f"{name} is {tensors[name].shape} where {shape} is needed"
            raise _for_another(folder, what, target)
        if name not in tensors and name not in OPTIONAL:
            raise CheckpointError(f"{folder} lacks the tensor {name!r}; download the head again.")
    is_shared = not {"embed_tokens.weight", "lm_head.weight"} <= tensors.keys()
    if is_shared and config.hidden_size != target.hidden_size:
        raise _for_another(folder, f"it is {config.hidden_size} wide", target)
    if config.vocab_size < target.vocab_size:
        raise _for_another(folder, f"it embeds {config.vocab_size} tokens", target)


def _target_ids(folder: Path, offsets: Tensor, vocab_size: int) -> IntArray:
    """From d2t, which holds what is to be added to a draft id."""
    ids = np.arange(len(offsets.data)) + offsets.data.astype(np.int64)
    if ids.min() < 0 or ids.max() >= vocab_size or len(np.unique(ids)) < len(ids):
        raise CheckpointError(
            f"{folder}: d2t does not map the draft's tokens to different ones of the "
            f"{vocab_size} that the target has; choose a head for this target."
        )
    return ids


def _for_another(folder: Path, what: str, target: ModelConfig) -> UnsupportedError:
    return UnsupportedError(
        f"The head {folder} is not for this target ({target.num_layers} layers, "
        f"{target.hidden_size} wide, {target.vocab_size} tokens): {what}; choose a head that was "
        "trained for it."
    )
