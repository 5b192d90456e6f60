"""What `auto` is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.catalog import CATALOG, Catalog
from oneglance.checkpoints.sources.entry import HubAccess
from oneglance.config import WeightsForm
from oneglance.drafters.auto import auto_parts
from tests.catalog.helpers import CLOSED_PORT, make_entry
from tests.tiny_models import write_tiny_gguf


@pytest.mark.parametrize(
    ("quantization", "form", "drafts", "parts"),
    [
        ("F32", "auto", [], ["suffix"]),
        ("F32", "bf16", [], ["suffix", "self:lowbit"]),
        ("F32", "f32", [], ["suffix", "self:lowbit"]),
        ("F32", "bf16", ["small", "smaller"], ["suffix", "draft:small"]),
        ("Q4_0", "bf16", [], ["suffix"]),
        ("Q4_0", "auto", ["small"], ["suffix", "draft:small"]),
    ],
)
def test_the_parts(
    tmp_path: Path, quantization: str, form: WeightsForm, drafts: list[str], parts: list[str]
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", quantization=quantization)
    assert auto_parts(load_checkpoint(path), form, drafts) == parts


def test_heads_come_before_models(tmp_path: Path) -> None:
    target = load_checkpoint(write_tiny_gguf(tmp_path / "tiny.gguf"))
    assert auto_parts(target, "bf16", ["small"], heads=["eagle", "medusa"]) == ["suffix", "eagle"]
    assert auto_parts(target, "bf16", ["small"], heads=[]) == ["suffix", "draft:small"]


def test_drafts_are_those_on_this_machine(tmp_path: Path) -> None:
    hub = HubAccess(endpoint=CLOSED_PORT)
    target = make_entry(b"target", [], name="target", drafts=("absent", "present"))
    others = [make_entry(b"draft", [], name=name) for name in ("absent", "present")]
    catalog = Catalog([target, *others], tmp_path, hub)
    assert catalog.local_drafts("target") == []
    (tmp_path / "present.gguf").write_bytes(b"draft")
    assert catalog.local_drafts("target") == ["present"]
    assert catalog.local_drafts("present") == []
    assert catalog.local_drafts("some/path.gguf") == []


def test_the_drafts_of_known_models_are_known_and_can_run() -> None:
    entries = {entry.name: entry for entry in CATALOG}
    for entry in CATALOG:
        assert all(entries[name].is_supported for name in entry.drafts)
    assert entries["qwen2.5-coder-1.5b"].drafts
