"""Checks commands of documents without running them: by the parser of the command itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from typer.main import get_command

from oneglance.cli import app

SHELL_WORDS = ("<", ">", "|", "&&")


def split_line(line: str) -> list[str]:
    """The words of a line of a shell, without comments and what comes after its own signs."""
    words = shlex.split(line, comments=True)
    ends = [index for index, word in enumerate(words) if word in SHELL_WORDS]
    return words[: min(ends, default=len(words))]


def check_command(words: Sequence[str], may_be_bare: bool = False) -> None:
    """Parses a command as the program would, without running it.

    Args:
        words: of the command line.
        may_be_bare: the name alone, without the arguments that the command needs, is right, too.

    Raises:
        Exception: of the parser: there is no such command or option, an argument is missing, or
            a value is of the wrong kind.
    """
    assert words[0] == "oneglance"
    command: Any = get_command(app)
    context: Any = None
    rest = list(words[1:])
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        context = command.context_class(command, parent=context, **command.context_settings)
        assert rest[0] in command.commands, f"there is no command {rest[0]!r}"
        command = command.commands[rest.pop(0)]
    if rest or not may_be_bare:
        command.make_context(command.name, rest, parent=context)
