"""The command line, `oneglance COMMAND`: one thin file for each command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from oneglance import __version__
from oneglance.cli import (
    audit,
    bench,
    calibrate,
    chat,
    demo,
    generate,
    models,
    plan,
    serve,
    show,
    train,
)
from oneglance.errors import OneglanceError

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(generate.generate)
app.command()(chat.chat)
app.command()(demo.demo)
app.command()(show.show)
app.command()(calibrate.calibrate)
app.command()(plan.plan)
app.command()(bench.bench)
app.command()(serve.serve)
app.add_typer(audit.app, name="audit")
app.add_typer(models.app, name="models")
app.add_typer(train.app, name="train")

USAGE_EXIT_CODE = 2
INTERRUPT_EXIT_CODE = 130
"""128 + SIGINT, as shells report it."""


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    is_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Speculative decoding: the draft changes how soon you get the answer, never which answer."""
    if is_version:
        typer.echo(f"oneglance {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns the exit code.

    Errors that a user can mend become one line on stderr and exit code 2, Ctrl-C becomes 130,
    and a reader that went away (`| head`) ends the program quietly with 1.

    Args:
        arguments: words after the program's name; None takes them from the process.
    """
    for stream in (sys.stdout, sys.stderr):
        # An answer may hold characters that the terminal's encoding lacks; that must not end it.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = app(args=arguments, prog_name="oneglance", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        return 1
    except KeyboardInterrupt:
        return INTERRUPT_EXIT_CODE
    except OneglanceError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        return _fail(f"{message}. See `{_command_path(error)} --help`.")
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"oneglance: {' '.join(message.split())}", file=sys.stderr)
    return USAGE_EXIT_CODE


def _command_path(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return "oneglance" if context is None else str(context.command_path)


def _drop_stdout() -> None:
    # The interpreter flushes stdout when it ends; what is left in the buffer has no reader.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
