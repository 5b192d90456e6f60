"""`oneglance models`: which models there are, where they come from, and keeping them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from oneglance.checkpoints.catalog import ModelStatus
    from oneglance.checkpoints.sources.description import ModelInfo

app = typer.Typer(help="List, pull, inspect, verify and clear models.", rich_markup_mode=None)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]
PIPED_WIDTH = 240
"""Columns of a table that goes into a pipe or file, so that nothing is cut off."""


@app.callback(invoke_without_command=True)
def models(context: typer.Context, as_json: JsonOption = False) -> None:
    """List, pull, inspect, verify and clear models. Without a command: list."""
    if context.invoked_subcommand is None:
        list_command(as_json)
    elif as_json:
        command = context.invoked_subcommand
        raise ParameterError(f"--json stands after the command: models {command} --json.")


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """Show the known models, and which of them are on this machine."""
    from oneglance.checkpoints.catalog import list_models
    from oneglance.checkpoints.sources.files import format_bytes

    statuses = list_models()
    if as_json:
        _print_json([asdict(status) for status in statuses])
        return
    rows = [
        (s.name, _state(s), format_bytes(s.bytes_on_disk), s.license, s.source) for s in statuses
    ]
    _print_table(("name", "state", "on disk", "licence", "source"), rows)


@app.command("pull")
def pull_command(
    names: Names,
    accept_license: Annotated[
        bool,
        typer.Option("--accept-license", help="Accept the licence of a model that asks for it."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch models: names of the list, or hub repositories (org/name)."""
    from oneglance.checkpoints.catalog import default_catalog
    from oneglance.cli.progress import progress_bar

    catalog, pulled = default_catalog(), []
    with progress_bar(_stderr()) as progress:
        for name in names:
            is_known = name in catalog.entries
            if is_known or "/" not in name:
                path = catalog.pull(name, progress, accept_license)
            else:
                path = catalog.resolve(name, progress)
            pulled.append({"name": name, "path": path})
    if as_json:
        _print_json(pulled)
    else:
        for item in pulled:
            typer.echo(f"{item['name']}\t{item['path']}")


@app.command("info")
def info_command(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Show what a model is; NAME is a name of the list or a local path. Reads only metadata."""
    from oneglance.checkpoints.catalog import info
    from oneglance.cli.progress import progress_bar

    with progress_bar(_stderr()) as progress:
        facts = info(name, progress)
    if as_json:
        _print_json(asdict(facts))
    else:
        _print_table(None, _info_rows(facts))


@app.command("verify")
def verify_command(names: Names, as_json: JsonOption = False) -> None:
    """Hash models again and compare with the pinned hash."""
    from oneglance.checkpoints.catalog import default_catalog
    from oneglance.cli.progress import progress_bar

    catalog, checked = default_catalog(), []
    with progress_bar(_stderr()) as progress:
        for name in names:
            path = catalog.verify(name, progress)
            checked.append({"name": name, "path": path, "sha256": catalog.entry(name).sha256})
    if as_json:
        _print_json(checked)
    else:
        for item in checked:
            typer.echo(f"{item['name']}\tok\t{item['sha256']}")


@app.command("clear")
def clear_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", show_default=False)
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="All models of the list.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove pulled models from the cache folder; files of installed packages stay."""
    from oneglance.checkpoints.catalog import default_catalog
    from oneglance.checkpoints.sources.files import format_bytes

    if bool(names) == is_all:
        raise ParameterError("`models clear` needs either names or --all, and not both.")
    catalog = default_catalog()
    chosen = list(catalog.entries) if is_all else [catalog.entry(name).name for name in names or []]
    freed = sum(catalog.clear(name) for name in chosen)
    if as_json:
        _print_json({"names": chosen, "bytes_freed": freed})
    else:
        typer.echo(f"freed {format_bytes(freed)}")


def _state(status: ModelStatus) -> str:
    is_partial = status.state == "not pulled" and status.bytes_on_disk > 0
    state = "partly pulled" if is_partial else status.state
    return state if status.unsupported_reason is None else f"{state}, cannot run"


def _info_rows(facts: ModelInfo) -> list[tuple[str, str]]:
    """Labels and values; what is not known is left out."""
    from oneglance.checkpoints.sources.files import format_bytes

    rows = [
        ("name", facts.name),
        ("description", facts.description),
        ("architecture", facts.architecture),
        ("path", str(facts.path) if facts.path is not None else "not on this machine"),
        ("size", f"{format_bytes(facts.num_bytes)} ({facts.num_bytes:,} bytes)"),
        ("licence", ". ".join(filter(None, (facts.license, facts.license_note)))),
        ("sha256", facts.sha256),
        ("cannot run", facts.unsupported_reason),
    ]
    for field in fields(facts.shape) if facts.shape is not None else ():
        value = getattr(facts.shape, field.name)
        label = field.name.removeprefix("num_").removeprefix("has_").replace("_", " ")
        if isinstance(value, bool):
            rows.append((label, "yes" if value else "no"))
        else:
            rows.append((label, f"{value:,}" if isinstance(value, int) else str(value)))
    return [(label, value) for label, value in rows if value]


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, default=_encode, ensure_ascii=False))


def _encode(value: object) -> str:
    assert isinstance(value, Path), f"{type(value).__name__} in JSON output"
    return str(value)


def _print_table(headings: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; wide enough to lose nothing where stdout is not a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*(headings or ()), box=None, show_header=headings is not None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    console = Console()
    if console.is_terminal:
        console.print(table)
        return
    console = Console(width=PIPED_WIDTH)
    with console.capture() as capture:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)
