"""Reads the container format GGUF: metadata and tensors, mapped and not copied.

The `gguf` package has a reader too, but it makes an array object of every string (seconds for a
vocabulary) and trusts the counts and offsets it finds. Here every length is checked against the
file before it is used, so that a corrupt file costs an error message and nothing else.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.checkpoints.base import Tensor
from oneglance.checkpoints.ggml_types import (
    ARRAY,
    DEFAULT_ALIGNMENT,
    SCALAR_FORMATS,
    STRING,
    TENSOR_TYPES,
    TensorType,
)
from oneglance.errors import CheckpointError

MAGIC = b"GGUF"
SUPPORTED_VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
MIN_ENTRY_BYTES = 13
"""Fewest bytes of a metadata entry: empty key, type, one byte of value."""
MIN_TENSOR_BYTES = 32
"""Fewest bytes of a tensor's description: empty name, one dimension, type, offset."""

UNREADABLE_TYPES = frozenset({"F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K", "Q1_0"})
"""Types that no weight of a supported model has, or that `gguf` cannot dequantise."""


@dataclass(frozen=True)
class GgufFile:
    """What a GGUF file holds.

    Attributes:
        path: the file.
        metadata: key to number, Boolean, string or list of them.
        tensors: name to tensor; dimensions in numpy's order (the file has them reversed).
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True)
class _TensorInfo:
    name: str
    shape: tuple[int, ...]
    kind: TensorType
    offset: int


class _Cursor:
    """Reads values one after the other and refuses to go beyond the end of the file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.offset = 0

    def fail(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is not a sound GGUF file: {what} at byte {self.offset}. "
            "Download or convert the model again."
        )

    def skip(self, num_bytes: int, what: str) -> int:
        """Moves on and returns where it was."""
        start = self.offset
        if num_bytes > len(self.data) - start:
            raise self.fail(f"{what} of {num_bytes} bytes runs beyond the end of the file")
        self.offset = start + num_bytes
        return start

    def scalar(self, layout: str, what: str) -> Any:
        start = self.skip(struct.calcsize(layout), what)
        return struct.unpack_from(layout, self.data, start)[0]

    def string(self, what: str) -> str:
        length = self.scalar("<Q", what)
        start = self.skip(length, what)
        try:
            return str(self.data[start : start + length], "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8") from error


def read_gguf(path: Path) -> GgufFile:
    """Maps a GGUF file and reads its header.

    Raises:
        CheckpointError: the file is missing, empty, truncated, corrupt, big-endian, or one part
            of a model that was split.
    """
    cursor = _Cursor(path, _map_file(path))
    num_tensors, num_entries = _read_counts(cursor)
    metadata = _read_metadata(cursor, num_entries)
    infos = _read_tensor_infos(cursor, num_tensors)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    is_power_of_two = isinstance(alignment, int) and alignment > 0 and not alignment & alignment - 1
    if not is_power_of_two:
        raise cursor.fail(f"general.alignment {alignment!r} is not a power of two")
    data_start = -(-cursor.offset // alignment) * alignment
    tensors = {name: _view_tensor(cursor, info, data_start) for name, info in infos.items()}
    return GgufFile(path=path, metadata=metadata, tensors=tensors)


def _map_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}. Name a file that exists and is readable."
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{path} is empty. Download or convert the model again.") from error


def _read_counts(cursor: _Cursor) -> tuple[int, int]:
    """Checks magic and version; returns the numbers of tensors and of metadata entries."""
    start = cursor.skip(len(MAGIC), "the magic number")
    if cursor.data[start : start + len(MAGIC)] != MAGIC:
        raise CheckpointError(
            f"{cursor.path} does not begin with the GGUF magic number. "
            "Name a GGUF file or a Hugging Face folder."
        )
    version = cursor.scalar("<I", "the version")
    if version & 0xFFFF == 0:
        raise CheckpointError(
            f"{cursor.path} is a big-endian GGUF file. Convert it to little-endian."
        )
    if version not in SUPPORTED_VERSIONS:
        raise CheckpointError(
            f"{cursor.path} has GGUF version {version}; versions 2 and 3 are supported. "
            "Convert the model again."
        )
    num_tensors = cursor.scalar("<Q", "the tensor count")
    num_entries = cursor.scalar("<Q", "the metadata count")
    remaining = len(cursor.data) - cursor.offset
    if num_tensors * MIN_TENSOR_BYTES + num_entries * MIN_ENTRY_BYTES > remaining:
        raise cursor.fail(
            f"{num_tensors} tensors and {num_entries} metadata entries do not fit in the file"
        )
    return num_tensors, num_entries


def _read_metadata(cursor: _Cursor, num_entries: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(num_entries):
        key = cursor.string("a metadata key")
        if key in metadata:
            raise cursor.fail(f"the key {key!r} occurs twice")
        kind = _value_type(cursor, key)
        metadata[key] = _read_array(cursor, key) if kind == ARRAY else _reader(cursor, kind, key)()
    return metadata


def _value_type(cursor: _Cursor, key: str) -> int:
    code = cursor.scalar("<I", f"the type of {key!r}")
    if code not in SCALAR_FORMATS and code not in (STRING, ARRAY):
        raise cursor.fail(f"{key!r} has the unknown type {code}")
    return int(code)


def _reader(cursor: _Cursor, kind: int, key: str) -> Callable[[], Any]:
    what = f"the value of {key!r}"
    if kind == STRING:
        return lambda: cursor.string(what)
    layout = SCALAR_FORMATS[kind]
    return lambda: cursor.scalar(layout, what)


def _read_array(cursor: _Cursor, key: str) -> list[Any]:
    what = f"the array {key!r}"
    kind = _value_type(cursor, key)
    length = cursor.scalar("<Q", what)
    if kind == ARRAY:
        raise cursor.fail(f"{what} is nested, which no supported model uses,")
    if kind == STRING:
        return _read_strings(cursor, length, what)
    dtype = np.dtype(SCALAR_FORMATS[kind])
    start = cursor.skip(length * dtype.itemsize, what)
    values: list[Any] = np.frombuffer(cursor.data, dtype, count=length, offset=start).tolist()
    return values


def _read_strings(cursor: _Cursor, count: int, what: str) -> list[Any]:
    """Strings one after the other; a vocabulary has some 100,000, hence a loop of its own."""
    data, size, position = cursor.data, len(cursor.data), cursor.offset
    # Every string has a length of 8 bytes, which bounds the count before the loop.
    if count * 8 > size - position:
        raise cursor.fail(f"{what} of {count} strings runs beyond the end of the file")
    read_length = struct.Struct("<Q").unpack_from
    strings: list[Any] = []
    try:
        for _ in range(count):
            start = position + 8
            position = start + read_length(data, position)[0]
            if position > size:
                raise cursor.fail(f"{what} runs beyond the end of the file")
            strings.append(data[start:position].decode())
    except (struct.error, UnicodeDecodeError) as error:
        raise cursor.fail(f"{what} is cut off or not UTF-8") from error
    cursor.offset = position
    return strings


def _read_tensor_infos(cursor: _Cursor, num_tensors: int) -> dict[str, _TensorInfo]:
    infos: dict[str, _TensorInfo] = {}
    for _ in range(num_tensors):
        name = cursor.string("a tensor name")
        if name in infos:
            raise cursor.fail(f"the tensor {name!r} occurs twice")
        num_dimensions = cursor.scalar("<I", f"the dimensions of {name!r}")
        if not 1 <= num_dimensions <= MAX_DIMENSIONS:
            raise cursor.fail(f"tensor {name!r} has {num_dimensions} dimensions")
        sizes = [cursor.scalar("<Q", f"the shape of {name!r}") for _ in range(num_dimensions)]
        code = cursor.scalar("<I", f"the type of {name!r}")
        if code not in TENSOR_TYPES:
            raise cursor.fail(f"tensor {name!r} has the unknown type {code}")
        offset = cursor.scalar("<Q", f"the offset of {name!r}")
        infos[name] = _TensorInfo(name, tuple(sizes[::-1]), TENSOR_TYPES[code], offset)
    return infos


def _view_tensor(cursor: _Cursor, info: _TensorInfo, data_start: int) -> Tensor:
    """A view of the tensor's bytes, after checking that they lie inside the file."""
    path, name, kind = cursor.path, info.name, info.kind
    plain: dict[str, np.dtype[Any]] = {
        "F32": np.dtype("<f4"),
        "F16": np.dtype("<f2"),
        "BF16": np.dtype("<u2"),
    }
    if kind.name in UNREADABLE_TYPES or (len(info.shape) == 1 and kind.name not in plain):
        raise CheckpointError(
            f"{path}: tensor {name!r} has the type {kind.name}, which is not supported for it. "
            "Convert the model to another type, Q4_K_M say."
        )
    _, block_size, block_bytes = kind
    columns = info.shape[-1]
    if columns % block_size:
        raise CheckpointError(
            f"{path}: rows of tensor {name!r} have {columns} values, not a multiple of the "
            f"{block_size} in a block of {kind.name}. Convert the model again."
        )
    row_bytes = columns // block_size * block_bytes
    num_bytes = prod(info.shape[:-1]) * row_bytes
    start, file_size = data_start + info.offset, len(cursor.data)
    if num_bytes == 0 or start + num_bytes > file_size:
        raise CheckpointError(
            f"{path}: tensor {name!r} lies at bytes {start} to {start + num_bytes}, but the file "
            f"has {file_size}: it is truncated or corrupt. Download the model again."
        )
    data: NDArray[np.generic] = np.frombuffer(cursor.data, np.uint8, num_bytes, start)
    if kind.name in plain:
        data = data.view(plain[kind.name]).reshape(info.shape)
    else:
        data = data.reshape(*info.shape[:-1], row_bytes)
    return Tensor(name=name, shape=info.shape, quantization=kind.name, data=data)
