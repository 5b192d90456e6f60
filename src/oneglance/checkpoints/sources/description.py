"""What a model is, for `oneglance models info`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oneglance.checkpoints.sources.entry import ModelEntry

if TYPE_CHECKING:
    from oneglance.checkpoints.base import Checkpoint


@dataclass(frozen=True)
class ModelShape:
    """What is read from a model file.

    Attributes:
        num_parameters: values in all weights, tied ones counted once.
        quantization: how many tensors are stored as what.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    vocab_size: int
    context_length: int
    num_parameters: int
    quantization: str
    has_chat_template: bool


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a model.

    Attributes:
        name: name in the catalog, or the file's stem.
        path: file or folder on this machine; None if it is not there.
        num_bytes: size of the file, or of the files of the folder.
        license: None for a local file that the catalog does not know.
        shape: None if the file is not on this machine or the engines do not know its kind.
        unsupported_reason: why the engines cannot run it; None if they can.
    """

    name: str
    description: str | None
    architecture: str
    path: Path | None
    num_bytes: int
    license: str | None
    license_note: str
    sha256: str | None
    shape: ModelShape | None
    unsupported_reason: str | None


def describe_known(
    entry: ModelEntry, path: Path | None, checkpoint: Checkpoint | None
) -> ModelInfo:
    """Facts about a model of the catalog; with its file read, also its shape."""
    return ModelInfo(
        name=entry.name,
        description=entry.description,
        architecture=entry.architecture,
        path=path,
        num_bytes=entry.num_bytes,
        license=entry.license,
        license_note=entry.license_note,
        sha256=entry.sha256,
        shape=None if checkpoint is None else _shape(checkpoint),
        unsupported_reason=entry.unsupported_reason,
    )


def describe_local(checkpoint: Checkpoint) -> ModelInfo:
    """Facts about a local file or folder."""
    path = checkpoint.path
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return ModelInfo(
        name=checkpoint.name,
        description=None,
        architecture=checkpoint.config.architecture,
        path=path,
        num_bytes=sum(file.stat().st_size for file in files),
        license=None,
        license_note="",
        sha256=None,
        shape=_shape(checkpoint),
        unsupported_reason=None,
    )


def _shape(checkpoint: Checkpoint) -> ModelShape:
    from oneglance.checkpoints.base import unique_tensors

    config = checkpoint.config
    tensors = unique_tensors(checkpoint.weights)
    return ModelShape(
        num_layers=config.num_layers,
        hidden_size=config.hidden_size,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        num_parameters=sum(math.prod(tensor.shape) for tensor in tensors),
        quantization=checkpoint.quantization_summary(),
        has_chat_template=checkpoint.chat_template is not None,
    )
