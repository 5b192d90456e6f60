from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_models import TinyShape, write_tiny_gguf


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random model that loads and answers in milliseconds; its context is 256 tokens."""
    return str(write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture(scope="session")
def slow_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random model whose answers last long enough to be interrupted."""
    shape = TinyShape(num_layers=24, context_length=8192)
    return str(write_tiny_gguf(tmp_path_factory.mktemp("slow") / "slow.gguf", shape=shape))


@pytest.fixture(scope="session")
def truncated_model(tmp_path_factory: pytest.TempPathFactory, tiny_model: str) -> str:
    """The tiny model's file without its second half."""
    data = Path(tiny_model).read_bytes()
    path = tmp_path_factory.mktemp("truncated") / "truncated.gguf"
    path.write_bytes(data[: len(data) // 2])
    return str(path)
