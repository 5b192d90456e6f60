"""The reference of the command line, as Markdown, made of the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from oneglance.cli import app

PROGRAM = "oneglance"
FIRST_LEVEL = 2
"""Level of the heading of a command; that of a command below it is one more."""
DOCS = ".."
"""Where docs/ lies, as seen from the page."""


def command_reference() -> str:
    """Every command with its usage, arguments and options, in the order of `oneglance --help`."""
    root = get_command(app)
    context = _context(root, PROGRAM, None)
    parts = [
        _section(command, _context(command, name, context), FIRST_LEVEL)
        for name, command in _children(root)
    ]
    return "\n\n".join(parts)


def _section(command: Any, context: Any, level: int) -> str:
    paragraphs = [
        f"{'#' * level} `{context.command_path}`",
        _one_line(command.help),
        f"```text\n{_one_line(command.get_usage(context)).removeprefix('Usage: ')}\n```",
        *_table(command, context),
    ]
    below = [
        _section(child, _context(child, name, context), level + 1)
        for name, child in _children(command)
    ]
    return "\n\n".join([*paragraphs, *below])


def _children(command: Any) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield name, child


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.context_class(command, info_name=name, parent=parent, **command.context_settings)


def _table(command: Any, context: Any) -> Iterator[str]:
    """One table of the arguments and options but `--help`; none where there are none."""
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [_row(*record) for record in records if record and "--help" not in record[0]]
    if rows:
        yield "\n".join(["| option | meaning | default, limits |", "| --- | --- | --- |", *rows])


def _row(name: str, help_text: str) -> str:
    meaning, facts = _facts(_one_line(help_text))
    linked = re.sub(r"docs/([\w-]+\.md)", rf"[\g<0>]({DOCS}/\1)", _escaped(meaning))
    return f"| `{name}` | {linked} | {_escaped(facts)} |"


def _facts(help_text: str) -> tuple[str, str]:
    """Splits "Meaning. [default: 1; x>=1]" into the meaning and the facts in brackets."""
    found = re.fullmatch(r"(?P<meaning>.*?) ?\[(?P<facts>[^][]*)\]", help_text)
    if found is None:
        return help_text, ""
    return found["meaning"], found["facts"].removeprefix("default: ").replace("x>=", "at least ")


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _escaped(text: str) -> str:
    """The text with the characters taken out of force that mean something in a table's cell."""
    return re.sub(r"([|*_<\\`])", r"\\\1", text)
