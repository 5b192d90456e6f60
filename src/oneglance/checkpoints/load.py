"""Reads a model from wherever it lies: a GGUF file or a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path

from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.gguf import load_gguf
from oneglance.checkpoints.huggingface import load_huggingface
from oneglance.errors import CheckpointError
from oneglance.types import ProgressCallback


def load_checkpoint(
    path: Path, name: str | None = None, progress: ProgressCallback | None = None
) -> Checkpoint:
    """Reads a model file or folder; weights stay in the file and are mapped, not copied.

    Args:
        path: a GGUF file, or a folder with config.json, safetensors and tokenizer.json.
        name: what the user calls the model; by default the file's stem or the folder's name.
        progress: told what has been read.

    Raises:
        CheckpointError: there is nothing there, the file is truncated or corrupt, or the model is
            of a kind that cannot be run exactly.
    """
    report = progress or _ignore_progress
    if path.is_dir():
        return load_huggingface(path, name or path.resolve().name, report)
    if path.is_file():
        return load_gguf(path, name or path.stem, report)
    raise CheckpointError(
        f"{path} is no file or folder that can be read. Name a GGUF file or a Hugging Face folder."
    )


def _ignore_progress(what: str, num_done: int, num_all: int) -> None:
    del what, num_done, num_all
