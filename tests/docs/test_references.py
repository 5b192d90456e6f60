"""Links, files and tests that the documents name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, documents, read

FAULTS = ROOT / "docs" / "known-faults.md"
FAULT_TESTS = ROOT / "tests" / "faults" / "test_known_faults.py"


def functions(path: Path) -> set[str]:
    tree = ast.parse(read(path))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_is_named_exists(path: Path) -> None:
    text = read(path)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"link to {target}"
    for name in re.findall(r"`((?:tests|docs|src|requirements)/[\w./-]+)`", text):
        if "NNN" not in name and not name.endswith("/repeat.py") and "test_repeat" not in name:
            assert (ROOT / name).exists(), f"file {name}"
    for file, function in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert function in functions(ROOT / file), f"{file}::{function}"


def test_every_fault_that_is_tested_names_a_test() -> None:
    tested = set(re.findall(r"def test_(\d\d)_", read(FAULT_TESTS)))
    named = set(re.findall(rf"`{FAULT_TESTS.relative_to(ROOT)}::test_(\d\d)_", read(FAULTS)))
    assert named == tested


def test_numbers_of_faults_are_complete_and_those_of_their_tests() -> None:
    rows = re.findall(r"^\| (\d+) \|(.*)$", read(FAULTS), flags=re.MULTILINE)
    numbers = [int(number) for number, _ in rows]
    assert sorted(numbers) == list(range(1, max(numbers) + 1))
    for number, row in rows:
        tests = re.findall(r"::test_(\d\d)_", row)
        assert all(int(test) == int(number) for test in tests)


@pytest.mark.parametrize(
    "part",
    [
        *("decode", "verify", "drafters", "control", "sampling", "engine", "checkpoints"),
        *("bench", "cli", "scheduler", "server", "show"),
    ],
)
def test_the_architecture_names_every_module(part: str) -> None:
    """In the paragraph of its part; the sources of models are named as a folder."""
    text = read(ROOT / "docs" / "architecture.md")
    paragraph = re.search(rf"^\*\*{part}\*\*: .*$", text, flags=re.MULTILINE)
    assert paragraph is not None
    named = set(re.findall(r"`(\w+\.py)`", paragraph[0]))
    modules = {path.name for path in (ROOT / "src" / "oneglance" / part).glob("*.py")}
    assert named == modules - {"__init__.py"}
