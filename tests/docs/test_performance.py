"""The document on speed shows what was measured, and how to measure it."""

from __future__ import annotations

import pytest

from tests.docs.documents import ROOT, between, read
from tests.docs.performance import DOCUMENT, blocks


@pytest.mark.parametrize("name", blocks())
def test_the_tables_are_what_was_measured(name: str) -> None:
    expected = blocks()[name]
    assert between(read(DOCUMENT), name) == expected, "run `python -m tests.docs.performance`"


def test_the_commands_are_tasks_of_the_makefile() -> None:
    makefile = read(ROOT / "Makefile")
    for task in ("bench-engine", "perplexity"):
        assert f"\n{task}: " in makefile
        assert f"make {task}" in read(DOCUMENT)
