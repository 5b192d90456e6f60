"""Writes safetensors files: a length, a JSON header, the data. See `safetensors_file.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.safetensors_file import LENGTH_BYTES

ALIGNMENT = 64
TYPE_NAMES: Mapping[str, str] = {"<f4": "F32", "<f2": "F16", "<i8": "I64", "|u1": "U8"}
"""What the format calls the element types of numpy."""


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays whole or not at all: the file gets its name when it is complete.

    Args:
        path: the file; one that is there is replaced.
        arrays: of float32, float16, int64 or uint8, by name; in this order in the file.
    """
    header: dict[str, object] = {}
    offset = 0
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in stored.items():
        header[name] = {
            "dtype": TYPE_NAMES[array.dtype.newbyteorder("<").str],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(len(text).to_bytes(LENGTH_BYTES, "little"))
        file.write(text)
        for array in stored.values():
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    unfinished.replace(path)
