"""The table of docs/structured-output.md is what was counted."""

from __future__ import annotations

import json

import pytest

from tests.docs.documents import ROOT, read

NAMES = {"smollm2-135m": "SmolLM2-135M", "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B"}


@pytest.mark.parametrize("model", NAMES)
def test_the_table_is_what_was_counted(model: str) -> None:
    report = json.loads(read(ROOT / "docs" / "measurements" / f"structured-output-{model}.json"))
    rows = [row for row in report["rows"] if row["drafter"] == "grammar"]
    assert len(rows) == 2
    for row in rows:
        space = row["format"].split()[0].replace("no", "none")
        tokens, passes = row["tokens"], row["passes"]
        share = f"{row['certain'] / tokens:.0%}".replace("%", " %")
        line = f"| {NAMES[model]} | {space} | {tokens} | {share} | {tokens / passes:.2f} |"
        assert line in read(ROOT / "docs" / "structured-output.md")
