"""The README tells the truth: its figures, its example, its commands and its tree."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.cli.processes import run_here
from tests.docs.documents import CONTRIBUTING, README, ROOT, between, code_blocks, read
from tests.docs.figures import BLOCK, MEASUREMENT, figures

COMMANDS = [
    shlex.split(line, comments=True)
    for line in "\n".join(code_blocks(read(README), "sh")).splitlines()
    if line.startswith("oneglance")
]


def test_the_table_is_what_was_measured() -> None:
    expected = figures(json.loads(read(MEASUREMENT)))
    assert between(read(README), BLOCK) == expected, "run `python -m tests.docs.figures`"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = code_blocks(read(README), "python")[0]
    assert len([line for line in example.splitlines() if line]) == 5
    exec(compile(example, "README.md", "exec"), {})
    answer, rivers = capsys.readouterr().out.split("\n", maxsplit=1)
    assert "Paris" in answer
    assert len(rivers) > 20


@pytest.mark.parametrize("path", [README, CONTRIBUTING], ids=lambda path: path.name)
def test_every_task_is_in_the_makefile(path: object) -> None:
    text = read(README if path == README else CONTRIBUTING)
    named = set(re.findall(r"\bmake ([a-z-]+)(?=[` ])", "\n".join(code_blocks(text, "sh"))))
    named |= set(re.findall(r"`make ([a-z-]+)`", text))
    tasks = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), flags=re.MULTILINE))
    assert named
    assert named <= tasks


def help_of(*command: str) -> str:
    done = run_here(*command, "--help")
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_its_options_exist(words: list[str]) -> None:
    has_parts = words[1] in ("audit", "models", "train")  # commands of their own below them
    command = words[1:3] if has_parts and len(words) > 2 else words[1:2]
    known = option_names(help_of(*command))
    assert {word for word in words if is_option(word)} <= known


def test_the_table_of_options_is_that_of_generate_and_chat() -> None:
    rows = re.findall(r"^\| (`-.*?) \|", read(README), flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(-[^`]*)`", row)}
    assert len(named) > 15
    shared = option_names(help_of("generate")) & option_names(help_of("chat"))
    assert named == {name for name in shared if name.startswith("--")} - {"--help"} | {"-k"}


def test_the_tree_names_what_there_is() -> None:
    tree = next(block for block in code_blocks(read(README), "text") if "src/" in block)
    named = re.findall(r"^  (\S+)", tree, flags=re.MULTILINE)
    there = [
        path.name + "/" * path.is_dir()
        for path in (ROOT / "src" / "oneglance").iterdir()
        if path.name != "__pycache__"
    ]
    assert sorted(named) == sorted(there)


def is_option(word: str) -> bool:
    return re.fullmatch(r"-[a-z]|--[a-z-]+", word) is not None


def option_names(help_text: str) -> set[str]:
    lines = re.findall(r"^  (-.*?)(?:  |$)", help_text, flags=re.MULTILINE)
    return {
        word.strip(",") for line in lines for word in line.split() if is_option(word.strip(","))
    }
