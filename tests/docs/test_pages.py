"""Whoever follows a page of the documentation gets what it shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oneglance.checkpoints.catalog import resolve
from oneglance.control.other_engines import settings_for
from tests.audit.scripted_server import ScriptedServer
from tests.audit.serving import serving
from tests.docs.commands import check_command, split_line
from tests.docs.documents import ROOT, read
from tests.docs.pages import Block, Reader, blocks_of

DOCS = ROOT / "docs"
ELSEWHERE = {"server.md"}
"""Its blocks need a running server: tests/server/test_documentation.py."""
PAGES = [
    path
    for folder in (DOCS, DOCS / "how-to", DOCS / "reference")
    for path in sorted(folder.glob("*.md"))
    if path.name not in ELSEWHERE
]
SERVERS = ("http://127.0.0.1:8001", "http://127.0.0.1:8002")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """Addresses of the pages, and where such servers really are."""
    with serving(ScriptedServer()) as plain, serving(ScriptedServer()) as speculating:
        yield dict(zip(SERVERS, (plain, speculating), strict=True))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def reader(
    tmp_path: Path, cache: Path, servers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """Someone who has a model file of their own, and whose cache nobody else uses."""
    (tmp_path / "my-model.gguf").symlink_to(resolve("smollm2-135m"))
    monkeypatch.setenv("ONEGLANCE_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield Reader(tmp_path, servers)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) == str(tmp_path / f"{name}.py"):
            del sys.modules[name]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_whoever_follows_it_gets_what_it_shows(path: Path, reader: Reader) -> None:
    for block in blocks_of(read(path)):
        reader.follow(block)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_within_sentences_exist(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", read(path), flags=re.MULTILINE | re.DOTALL)
    for command in re.findall(r"`(oneglance (?!COMMAND)[^`]+)`", text):
        check_command(split_line(command), may_be_bare=True)


def test_settings_of_other_engines_are_those_of_plan() -> None:
    text = read(DOCS / "how-to" / "audit-your-server.md")
    assert f" {settings_for('vllm', 'ngram', 5)}\n" in text
    assert f" {settings_for('llama.cpp', 'draft:draft.gguf', 5)}\n" in text


def test_tasks_of_the_makefile_exist() -> None:
    tasks = re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), flags=re.MULTILINE)
    for path in PAGES:
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", read(path), re.MULTILINE)) <= set(tasks)


def test_every_known_fault_has_a_symptom() -> None:
    text = read(DOCS / "troubleshooting.md")
    numbers = {
        int(number)
        for group in re.findall(r"\((\d+(?:, \d+)*)\)", text)
        for number in group.split(", ")
    }
    known = re.findall(r"^\| (\d+) \|", read(DOCS / "known-faults.md"), flags=re.MULTILINE)
    assert numbers == {int(number) for number in known}


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Block("sh", "", "oneglance models --nothing\n"), "No such option"),
        (Block("sh", "", "ls\n"), "ls is not run"),
        (Block("sh", "Refused", "oneglance models list\n"), "oneglance models list"),
        (Block("python", "", "assert 1 == 2, 'no'\n"), "no"),
        (Block("text", "", "Something.\n"), "without a block that is run"),
        (Block("ruby", "", "puts 1\n"), "nobody can run ruby"),
    ],
)
def test_what_goes_wrong_is_noticed(block: Block, message: str, reader: Reader) -> None:
    with pytest.raises(AssertionError, match=message):
        reader.follow(block)


def test_another_output_is_noticed(reader: Reader) -> None:
    say = Block("python", "", "print('One 2 three.\\nFour.')\n")
    reader.follow(say)
    reader.follow(Block("text", "", "One … three.\nFour.\n"))
    for wrong in ("One.\n", "…\n", "One … three.\n", "One … three.\nFive.\n"):
        reader.follow(say)
        with pytest.raises(AssertionError, match="One 2"):
            reader.follow(Block("text", "", wrong))


def test_what_is_not_run_is_checked_all_the_same(reader: Reader) -> None:
    right = "oneglance generate -d eagle:head Hello > file\n# A comment.\nvllm serve MODEL\n"
    reader.follow(Block("sh", "Needs: a head", right))
    for wrong in (
        "oneglance invent\n",
        "oneglance generate --invent Hello\n",
        "oneglance generate",
    ):
        with pytest.raises(Exception, match=r"invent|Missing parameter"):
            reader.follow(Block("sh", "Needs: a head", wrong))
    with pytest.raises(SyntaxError):
        reader.follow(Block("python", "Needs: a head", "print(\n"))


def test_a_fence_that_would_be_passed_over_is_noticed() -> None:
    assert len(blocks_of("```sh\nls\n```\n\n```text\nx\n```\n")) == 2
    for page in ("- x\n\n  ```sh\n  ls\n  ```\n", '```sh hl_lines="1"\nls\n```\n'):
        with pytest.raises(AssertionError, match="info string"):
            blocks_of(page)
