"""The options that say what an answer must look like, and the files that two of them name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.constraints import Constraint

JSON_SCHEMA_HELP = "The answer is JSON that this schema describes."
GRAMMAR_HELP = "The answer is a text of this grammar, in Lark's notation."
REGEX_HELP = "The answer matches this regular expression as a whole."


def read_constraint(
    json_schema: str | None, grammar: str | None, regex: str | None
) -> Constraint | None:
    """The constraint that the options ask for; None if there is none.

    Args:
        json_schema: file of `--json-schema`.
        grammar: file of `--grammar`.
        regex: text of `--regex`.

    Raises:
        ParameterError: there are several, a file cannot be read, or what it holds is no schema.
    """
    from oneglance.constraints import named_constraint

    options = (("--json-schema", json_schema), ("--grammar", grammar), ("--regex", regex))
    given = [name for name, value in options if value is not None]
    if len(given) > 1:
        raise ParameterError(f"{given[0]} and {given[1]} both constrain the answer; drop one.")
    return named_constraint(
        {
            "json_schema": None if json_schema is None else _read("--json-schema", json_schema),
            "grammar": None if grammar is None else _read("--grammar", grammar),
            "regex": regex,
        }
    )


def _read(option: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ParameterError(
            f"{option} {file!r} cannot be read ({error.strerror}); name a file that can."
        ) from None
    except UnicodeDecodeError as error:
        raise ParameterError(
            f"{option} {file!r} is not UTF-8 text (byte {error.start}); convert it to UTF-8."
        ) from None
