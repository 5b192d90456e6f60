"""The document on drafters shows what was measured, how, and has a word on each of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.drafters_stages import STAGES
from oneglance.drafters.factory import DRAFTERS
from tests.docs.documents import ROOT, between, read
from tests.docs.drafters import DOCUMENT, NOTHING, blocks


@pytest.mark.parametrize("name", blocks())
def test_the_tables_are_what_was_measured(name: str) -> None:
    expected = blocks()[name]
    assert between(read(DOCUMENT), name) == expected, "run `python -m tests.docs.drafters`"


def test_every_drafter_has_a_section() -> None:
    headings = " ".join(re.findall(r"^### (.*)$", read(DOCUMENT), flags=re.MULTILINE))
    named = set(re.findall(r"`(\w+)", headings))
    assert set(DRAFTERS) - {"none"} <= named


def test_every_stage_is_described_with_its_command() -> None:
    text = read(DOCUMENT)
    assert "\nbench-drafters: " in read(ROOT / "Makefile")
    for stage in STAGES:
        assert f"`{stage}`" in text
    assert "make bench-drafters" in text


def test_a_stage_without_a_measurement_says_so(tmp_path: Path) -> None:
    assert set(blocks(tmp_path).values()) == {NOTHING}


def test_a_file_of_another_stage_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "drafters-pair.json").write_text(json.dumps({"stage": "default"}))
    with pytest.raises(AssertionError, match=r"name it drafters-STAGE\*\.json"):
        blocks(tmp_path)
