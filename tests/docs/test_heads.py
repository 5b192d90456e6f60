"""The tables of docs/trained-heads.md are what training found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from recipes.gather import gather, main
from tests.docs.documents import between, read
from tests.docs.heads import DOCUMENT, MEASUREMENT, blocks
from tests.docs.performance import load_report


def test_the_tables_are_what_was_found() -> None:
    for name, content in blocks().items():
        assert between(read(DOCUMENT), name) == content, "run `python -m tests.docs.heads`"


def test_runs_are_told_with_all_that_was_found() -> None:
    for name, run in load_report(MEASUREMENT)["runs"].items():
        assert {"command", "settings", "training", "collection", "held_out", "curve"} <= run.keys()
        assert "/" not in run["command"], f"{name} tells a folder of the machine"


def test_gathered_is_the_provenance_of_each(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "provenance.json").write_text(
            json.dumps({"command": f"train --out /some/where/{name}"})
        )
    folders = [tmp_path / "b", tmp_path / "a"]
    expected = {"runs": {name: {"command": f"train --out {name}"} for name in ("b", "a")}}
    assert gather(folders) == expected
    assert list(gather(folders)["runs"]) == ["b", "a"]
    app = typer.Typer()
    app.command()(main)
    out = tmp_path / "all.json"
    result = CliRunner().invoke(app, [*map(str, folders), "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text(encoding="utf-8")) == expected
    with pytest.raises(FileNotFoundError):
        gather([tmp_path])
    assert "cannot be read" in CliRunner().invoke(app, [str(tmp_path), "--json", str(out)]).output
