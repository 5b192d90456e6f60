"""The prompt of a command: its argument, --raw, and standard input in its place."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from oneglance.cli.options import check_text
from oneglance.errors import ParameterError

PromptArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROMPT",
        help="The question; - reads it from standard input, without the last line break.",
    ),
]
RawOption = Annotated[
    bool,
    typer.Option("--raw", help="Continue the prompt byte for byte, without the chat template."),
]


def check_raw(raw: bool, system: str | None) -> None:
    """Refuses a system message where there is no conversation.

    Raises:
        ParameterError: both are given.
    """
    if raw and system is not None:
        raise ParameterError("--system is part of a conversation, which --raw is not; drop one.")


def read_prompt(prompt: str, raw: bool) -> str:
    """The text that is meant: the argument's own, or standard input for "-".

    Args:
        prompt: the argument.
        raw: keep the line break at the very end of standard input, which is otherwise the shell's.

    Raises:
        ParameterError: it is not UTF-8.
    """
    if prompt != "-":
        return check_text("PROMPT", prompt)
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParameterError(
            f"Standard input is not UTF-8 (byte {error.start}); convert it to UTF-8."
        ) from None
    return text if raw else text.removesuffix("\n").removesuffix("\r")
