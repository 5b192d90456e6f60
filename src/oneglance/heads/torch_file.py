"""Weights in PyTorch's own files; they are pickles, which only PyTorch itself reads safely."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from oneglance.checkpoints.base import Tensor
from oneglance.errors import CheckpointError, UnsupportedError


def read_torch_file(path: Path) -> dict[str, Tensor]:
    """Reads tensors of a .bin or .pt file: floats as float32, whole numbers as int64.

    Raises:
        CheckpointError: the file is not a sound file of tensors.
        UnsupportedError: PyTorch is not installed.
    """
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        raise UnsupportedError(
            f"{path} is a file of PyTorch, which is not installed; convert it to safetensors, or "
            "run: pip install 'oneglance[train]'."
        ) from None
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
        return {str(name): _tensor(torch, str(name), value) for name, value in values.items()}
    except Exception as error:  # whatever a damaged or hostile pickle raises
        raise CheckpointError(
            f"{path} is not a sound file of tensors; download the head again."
        ) from error


def _tensor(torch: Any, name: str, value: Any) -> Tensor:
    if value.is_floating_point():
        return Tensor(name, tuple(value.shape), "F32", value.to(torch.float32).numpy())
    whole = np.asarray(value.to(torch.int64).numpy())
    return Tensor(name, tuple(value.shape), "I64", whole)
