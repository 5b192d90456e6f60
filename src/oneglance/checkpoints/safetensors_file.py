"""Reads safetensors files, mapped and not copied.

The `safetensors` package gives numpy no BF16 arrays; the format is a length, a JSON header and
the data, so the header is read here and every offset checked.

Format: https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.errors import CheckpointError

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""Longest header that the format allows."""

DTYPES: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}
"""Types that the weights of a model may have."""
ALL_DTYPES: Mapping[str, np.dtype[Any]] = {
    **DTYPES,
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("u1"),
}
"""Those, and what trained heads have besides: token ids, packed weights, masks."""


def read_safetensors(path: Path, dtypes: Mapping[str, np.dtype[Any]] = DTYPES) -> dict[str, Tensor]:
    """Maps a file; name to tensor.

    Args:
        path: the file.
        dtypes: element types that are accepted, by their names in the format.

    Raises:
        CheckpointError: the file is missing, truncated or corrupt, or a tensor has a type that is
            not supported.
    """
    data = _map_file(path)
    header_bytes = int.from_bytes(data[:LENGTH_BYTES], "little")
    if not 2 <= header_bytes <= min(MAX_HEADER_BYTES, len(data) - LENGTH_BYTES):
        raise _unsound(path, f"its header of {header_bytes} bytes does not fit in it")
    start = LENGTH_BYTES + header_bytes
    try:
        header = json.loads(data[LENGTH_BYTES:start])
    except (ValueError, RecursionError) as error:
        raise _unsound(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _unsound(path, "its header is not a JSON object")
    return {
        name: _view_tensor(path, data, start, name, entry, dtypes)
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _map_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}. Download the model again."
        ) from error
    except ValueError as error:
        raise _unsound(path, "it is empty") from error
    if len(data) < LENGTH_BYTES:
        raise _unsound(path, f"it has only {len(data)} bytes")
    return data


def _unsound(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} is not a sound safetensors file: {what}. Download the model again."
    )


def _view_tensor(
    path: Path,
    data: mmap.mmap,
    start: int,
    name: str,
    entry: Any,
    dtypes: Mapping[str, np.dtype[Any]],
) -> Tensor:
    entry = entry if isinstance(entry, dict) else {}
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not _are_sizes(shape) or not shape or not _are_sizes(offsets) or len(offsets) != 2:
        raise _unsound(path, f"tensor {name!r} is not described by a shape and two offsets")
    dtype = dtypes.get(str(entry.get("dtype")))
    if dtype is None:
        *most, last = dtypes
        raise CheckpointError(
            f"{path}: tensor {name!r} has the type {entry.get('dtype')!r}; {', '.join(most)} and "
            f"{last} are supported. Use a model that is not quantised, or a GGUF file."
        )
    begin, end = start + offsets[0], start + offsets[1]
    num_bytes = prod(shape) * dtype.itemsize
    if num_bytes == 0 or end - begin != num_bytes or end > len(data):
        raise _unsound(
            path,
            f"tensor {name!r} of shape {shape} lies at bytes {begin} to {end} of {len(data)}",
        )
    values: NDArray[np.generic] = np.frombuffer(data, np.uint8, num_bytes, begin)
    return Tensor(
        name=name,
        shape=tuple(shape),
        quantization=str(entry["dtype"]),
        data=values.view(dtype).reshape(shape),
    )


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)
