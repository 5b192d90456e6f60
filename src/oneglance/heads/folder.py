"""What the folders of all trained heads have in common: JSON beside tensors, packed or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.ggml_types import TENSOR_TYPES
from oneglance.checkpoints.requantize import GROUP, requantize
from oneglance.checkpoints.safetensors_writer import write_safetensors
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array, IntArray

CONFIG_FILE = "config.json"
PROVENANCE_FILE = "provenance.json"
D2T = "d2t"
"""Tensor with what to add to a token of the draft vocabulary for the target's."""
OWN = "oneglance"
"""Entry of config.json with what only this package knows."""

HeadForm = Literal["F32", "F16", "Q5_1", "Q4_1"]
"""How the matrices of a head are stored; vectors are F32 in all forms."""


def stored_matrix(name: str, array: Float32Array, form: HeadForm) -> NDArray[Any]:
    """An array as it goes into the file: float32, float16, or bytes of a quantised type.

    Args:
        name: for messages.
        array: of any shape; only matrices whose rows are a multiple of 32 long are quantised.
        form: what becomes of matrices.

    Raises:
        CheckpointError: a weight that is to be quantised is not finite.
    """
    if array.ndim != 2 or form == "F32":
        return array.astype(np.float32)
    if form == "F16" or array.shape[1] % GROUP:
        return array.astype(np.float16)
    return np.asarray(requantize(Tensor(name, array.shape, "F32", array), form).data)


def unpacked(tensor: Tensor, quantization: str | None) -> Tensor:
    """A tensor of a file, bytes of a quantised type seen as the matrix that they stand for.

    Args:
        tensor: as the file has it.
        quantization: its type, where it is stored as bytes; None: it is not.

    Raises:
        CheckpointError: it is not stored like that.
    """
    if quantization is None:
        return tensor
    kinds = {kind.name: kind for kind in TENSOR_TYPES.values()}
    if quantization not in kinds or len(tensor.shape) != 2 or tensor.quantization != "U8":
        raise CheckpointError(
            f"Tensor {tensor.name!r} is not stored as {quantization!r}; download the head again."
        )
    kind = kinds[quantization]
    shape = tensor.shape[0], tensor.shape[1] // kind.block_bytes * kind.block_size
    return replace(tensor, shape=shape, quantization=quantization)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CheckpointError: the file is missing, or holds no JSON object.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}; name the folder of a trained head."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not sound JSON; download the head again.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object; download the head again.")
    return value


def write_head(
    weights: Path,
    tensors: Mapping[str, NDArray[Any]],
    target_ids: IntArray | None,
    provenance: Mapping[str, object],
    config: Mapping[str, object],
) -> None:
    """Writes the files of a head; each appears whole or not at all, the configuration last.

    Args:
        weights: of the tensors; the others lie beside it.
        tensors: as they are stored, without d2t.
        target_ids: [V_d] the target's id of each token of the draft vocabulary; None: the two
            vocabularies are one.
        provenance: for provenance.json.
        config: for config.json.
    """
    stored = dict(tensors)
    if target_ids is not None:
        stored[D2T] = (target_ids - np.arange(len(target_ids))).astype(np.int64)
    write_safetensors(weights, stored)
    write_json(weights.with_name(PROVENANCE_FILE), provenance)
    write_json(weights.with_name(CONFIG_FILE), config)


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Writes a JSON object; the file appears whole or not at all."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)
