"""Which heads come with the package for which model."""

from __future__ import annotations

from pathlib import Path

from oneglance.checkpoints import load_checkpoint
from oneglance.heads.shipped import (
    FOLDER,
    SHIPPED,
    HeadKind,
    Identity,
    identity_of,
    shipped_heads,
    size_of,
)
from tests.tiny_models import TinyShape, write_tiny_gguf


def test_heads_belong_to_a_model_and_a_kind(tmp_path: Path) -> None:
    target = load_checkpoint(write_tiny_gguf(tmp_path / "tiny.gguf"))
    same = load_checkpoint(write_tiny_gguf(tmp_path / "tuned.gguf", seed=5, quantization="Q8_0"))
    other = load_checkpoint(write_tiny_gguf(tmp_path / "other.gguf", shape=TinyShape(num_layers=3)))
    table: dict[tuple[HeadKind, Identity], str] = {("medusa", identity_of(target)): "tiny-medusa"}
    assert shipped_heads("medusa", target, table) == FOLDER / "tiny-medusa"
    assert shipped_heads("medusa", same, table) == FOLDER / "tiny-medusa"
    assert shipped_heads("eagle", target, table) is None
    assert shipped_heads("medusa", other, table) is None


def test_what_is_listed_is_there_and_small() -> None:
    for name in SHIPPED.values():
        files = list((FOLDER / name).iterdir())
        assert {"config.json", "provenance.json", "README.md"} <= {file.name for file in files}
        assert size_of(FOLDER / name) < 12e6
