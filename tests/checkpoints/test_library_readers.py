"""Our readers of headers find in a file what the formats' own libraries find in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader
from numpy.typing import NDArray
from safetensors.numpy import save_file

from oneglance.checkpoints.gguf_file import read_gguf
from oneglance.checkpoints.safetensors_file import read_safetensors
from tests.tiny_models import write_tiny_gguf


@pytest.mark.parametrize("quantization", ["F32", "F16", "Q4_1", "Q8_0"])
def test_gguf_as_its_library_reads_it(tmp_path: Path, quantization: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", quantization=quantization)
    ours = read_gguf(path)
    library: Any = GGUFReader(path)
    fields = {n: f.contents() for n, f in library.fields.items() if not n.startswith("GGUF.")}
    assert set(ours.metadata) == set(fields)
    for name, value in fields.items():
        found = ours.metadata[name]
        assert (list(found) if isinstance(value, list) else found) == value, name
    assert set(ours.tensors) == {tensor.name for tensor in library.tensors}
    for tensor in library.tensors:
        found_tensor = ours.tensors[tensor.name]
        assert found_tensor.quantization == tensor.tensor_type.name
        assert found_tensor.shape == tuple(int(size) for size in reversed(tensor.shape))
        assert found_tensor.data.tobytes() == tensor.data.tobytes()


def test_safetensors_as_its_library_writes_it(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    arrays: dict[str, NDArray[Any]] = {
        "a.weight": generator.standard_normal((7, 5)).astype(np.float32),
        "b.weight": generator.standard_normal((3, 4)).astype(np.float16),
        "c.bias": generator.standard_normal(9).astype(np.float32),
    }
    path = tmp_path / "model.safetensors"
    save_file(arrays, path, metadata={"format": "np"})
    ours = read_safetensors(path)
    assert set(ours) == set(arrays)
    for name, array in arrays.items():
        assert ours[name].shape == array.shape
        np.testing.assert_array_equal(ours[name].data, array)
