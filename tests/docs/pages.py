"""Runs the blocks of code of a page in order, as a reader would who follows it.

A block's info string is its language, and may have a title:

- `sh`: lines that begin with `oneglance`, run with the real program, which must end with 0;
- `sh title="Refused"`: likewise, and must end with 2, which is what a user can mend;
- `python`: run in one namespace for the whole page;
- `python title="FILE"`, `json title="FILE"`, `lark title="FILE"`: written to FILE in the reader's
  folder; Python is imported, too;
- `text`: what the block before it printed; an ellipsis stands for any characters of a line, and a
  line alone may be broken into several;
- any title that begins with `Needs:` says why a block is not run; its syntax is checked, and the
  commands of this package in it are parsed.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import shlex
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.processes import run_here
from tests.docs.commands import check_command, split_line

FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its title (or nothing), and what is in it."""

    language: str
    title: str
    text: str

    @property
    def is_run(self) -> bool:
        return not self.title.startswith("Needs: ")

    @property
    def lines(self) -> list[str]:
        """Its lines, those that go on after a backslash joined."""
        return self.text.replace("\\\n", " ").splitlines()


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page in order.

    Raises:
        AssertionError: a fence is written in another way than is told above.
    """
    found = [Block(*match.groups(default="")) for match in FENCE.finditer(page)]
    num_fences = len(re.findall(r"^\s*(?:```|~~~)", page, re.MULTILINE))
    assert num_fences == 2 * len(found), "a fence is indented, or has another info string"
    return found


@dataclass
class Reader:
    """Someone who follows a page.

    Attributes:
        folder: where they work; the process must be in it, and it must be importable.
        replacements: texts of the page that are others on this machine, such as addresses.
        output: what the latest block that was run has printed.
    """

    folder: Path
    replacements: Mapping[str, str] = field(default_factory=dict)
    output: str | None = None
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})

    def follow(self, block: Block) -> None:
        """Does what a block says.

        Raises:
            AssertionError: it does not end as the page says, or prints something else.
        """
        if block.language == "text":
            assert self.output is not None, "an output without a block that is run"
            assert _is_shown(self.output.strip(), block.text.strip()), self.output
            self.output = None
        elif not block.is_run:
            check_syntax(block)
            self.output = None
        elif block.language == "sh":
            self.output = "".join(self._run(line, block) for line in block.lines)
        elif block.language == "python":
            self.output = self._python(block)
        elif block.language in ("json", "lark"):
            if block.language == "json":
                _check_json_lines(block.text)
            (self.folder / block.title).write_text(block.text, encoding="utf-8")
        else:
            raise AssertionError(f"nobody can run {block.language}")

    def _run(self, line: str, block: Block) -> str:
        for text, own in self.replacements.items():
            line = line.replace(text, own)
        program, *arguments = shlex.split(line)
        assert program == "oneglance", f"{program} is not run; say in the title what it needs"
        done = run_here(*arguments)
        expected = 2 if block.title == "Refused" else 0
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"
        return _error(done.stderr) if expected else done.stdout

    def _python(self, block: Block) -> str:
        with redirect_stdout(io.StringIO()) as out:
            if block.title:
                path = self.folder / block.title
                path.write_text(block.text, encoding="utf-8")
                importlib.invalidate_caches()
                importlib.import_module(path.stem)
            else:
                exec(compile(block.text, "page", "exec"), self.namespace)
        return out.getvalue()


def _error(errors: str) -> str:
    """The line that says what was refused; a busy machine shows progress before it."""
    return "".join(line for line in errors.splitlines(True) if line.startswith("oneglance: "))


def _is_shown(output: str, text: str) -> bool:
    """Whether a text shows an output; an output of one line may be shown on several."""
    if "\n" not in output:
        text = " ".join(text.split())
    return bool(re.fullmatch(".*".join(map(re.escape, text.split(ANYTHING))), output))


def check_syntax(block: Block) -> None:
    """Checks what can be checked of a block that is not run.

    Raises:
        Exception: it is not of its language, or a command of this package is not right.
    """
    if block.language == "python":
        compile(block.text, "page", "exec")
        return
    assert block.language == "sh", f"nobody can check {block.language}"
    for line in block.lines:
        words = split_line(line)
        if words[:1] == ["oneglance"]:
            check_command(words)


def _check_json_lines(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)
