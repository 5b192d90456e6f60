"""Reads the project's documents: blocks of code, commands, links, names of files and tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def documents() -> list[Path]:
    """Every Markdown file of the project: those at the top and those in docs/."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def code_blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order, whatever their titles."""
    fence = rf"^```{language}(?: title=\"[^\"]*\")?\n(.*?)^```$"
    return re.findall(fence, text, flags=re.MULTILINE | re.DOTALL)


def between(text: str, name: str) -> str:
    """What stands between the two comments of a generated block."""
    begin, end = markers(name)
    assert text.count(begin) == text.count(end) == 1, f"{name} must be marked exactly once"
    return text.partition(begin)[2].partition(end)[0].strip("\n")


def markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def write_blocks(path: Path, blocks: Mapping[str, str]) -> None:
    """Puts generated blocks between their markers, and says whether that changed anything."""
    old = text = read(path)
    for name, content in blocks.items():
        between(text, name)  # complains where the block is missing
        begin, end = markers(name)
        before, after = text[: text.index(begin)], text[text.index(end) + len(end) :]
        text = f"{before}{begin}\n{content}\n{end}{after}"
    path.write_text(text, encoding="utf-8")
    state = "is as measured" if text == old else "has new figures"
    print(f"{path.name} {state}.")
