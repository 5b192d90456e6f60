"""The codes and sizes are those of the `gguf` package."""

from __future__ import annotations

import struct

from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGMLQuantizationType,
    GGUFValueType,
)

from oneglance.checkpoints import ggml_types

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "BOOL": 1}


def test_tensor_types() -> None:
    for code, (name, block_size, block_bytes) in ggml_types.TENSOR_TYPES.items():
        kind = GGMLQuantizationType(code)
        assert kind.name == name
        assert GGML_QUANT_SIZES[kind] == (block_size, block_bytes)
    assert len(ggml_types.TENSOR_TYPES) >= 34


def test_value_types() -> None:
    assert ggml_types.STRING == GGUFValueType.STRING
    assert ggml_types.ARRAY == GGUFValueType.ARRAY
    assert ggml_types.DEFAULT_ALIGNMENT == GGUF_DEFAULT_ALIGNMENT
    for code, layout in ggml_types.SCALAR_FORMATS.items():
        name = GGUFValueType(code).name
        kind = name.rstrip("0123456789")
        assert struct.calcsize(layout) == SIZES[name.removeprefix(kind) or name]
        is_signed = layout[1].islower()
        assert is_signed == (kind in ("INT", "FLOAT")) or kind == "BOOL"
