"""The options that say what an answer must look like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oneglance.cli.constraint_options import read_constraint
from oneglance.constraints import Constraint
from oneglance.errors import ParameterError
from tests.cli.processes import run_here


def test_files_and_texts_are_read(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "null"}', encoding="utf-8")
    (tmp_path / "grammar.lark").write_text('start: "ä"', encoding="utf-8")
    schema, grammar = str(tmp_path / "schema.json"), str(tmp_path / "grammar.lark")
    assert read_constraint(None, None, None) is None
    assert read_constraint(schema, None, None) == Constraint.json_schema({"type": "null"})
    assert read_constraint(None, grammar, None) == Constraint.grammar('start: "ä"')
    assert read_constraint(None, None, "a+") == Constraint.regex("a+")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"--json-schema .*missing.json' cannot be read \(No "):
        read_constraint(str(tmp_path / "missing.json"), None, None)
    (tmp_path / "latin.lark").write_bytes(b'start: "\xe4"')
    with pytest.raises(ParameterError, match=r"--grammar .*latin.lark' is not UTF-8 text"):
        read_constraint(None, str(tmp_path / "latin.lark"), None)
    with pytest.raises(ParameterError, match="--grammar and --regex both constrain the answer"):
        read_constraint(None, "file", "a")


def test_an_answer_matches_the_expression(tiny_model: str) -> None:
    done = run_here(
        "generate", "Hello", "-m", tiny_model, "--regex", "(yes|no), (yes|no)", "--json"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["text"] in ("yes, yes", "yes, no", "no, yes", "no, no")
    assert result["finish_reason"] == "stop"
    assert result["speculation"]["accepted"] > 0, "most of it is certain"


def test_a_refused_constraint_is_one_line(tiny_model: str) -> None:
    done = run_here("generate", "Hello", "-m", tiny_model, "--regex", "(a")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "regex cannot be used: " in done.stderr.replace("\n", " ")
