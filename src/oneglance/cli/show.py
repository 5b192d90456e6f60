"""`oneglance show`: one answer, pass by pass, on the terminal or as a file to send."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneglance.cli.options import Options, takes
from oneglance.cli.prompt import PromptArgument, RawOption, check_raw, read_prompt
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.config import SamplingParams
    from oneglance.llm import LLM
    from oneglance.show.trace import Trace


def _file_option(name: str, metavar: str, help_text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=help_text)
    return option


@takes(Options, leave_out=("trace",))
def show(
    prompt: PromptArgument,
    options: Options,
    raw: RawOption = False,
    rounds: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Race plain decoding N times, by turns, with a seed; 0: no race.",
        ),
    ] = 3,
    html_path: Annotated[
        Path | None,
        _file_option("--html", "FILE", "Write one page that opens from disk, with everything."),
    ] = None,
    svg_path: Annotated[
        Path | None, _file_option("--svg", "FILE", "Write a still picture of the passes.")
    ] = None,
    json_path: Annotated[
        Path | None, _file_option("--json", "FILE", "Write the trace; - is standard output.")
    ] = None,
) -> None:
    """Show an answer pass by pass: what was drafted, kept, struck out, and what that was worth."""
    from oneglance.show.run import with_seed

    check_raw(raw, options.system)
    files = [("--html", html_path), ("--svg", svg_path), ("--json", json_path)]
    for name, path in files:
        _check_file(name, path)
    _check_distinct(files)
    params = options.sampling_params()
    if rounds:
        params = with_seed(params)
    text = read_prompt(prompt, raw)
    with _load(options) as llm:
        is_quiet = json_path == Path("-")
        trace = _run(llm, text, options, raw, params, rounds, is_quiet)
    _write(trace, html_path, svg_path, json_path)
    if trace.race is not None and not trace.race.is_identical:
        raise typer.Exit(1)


def _check_file(name: str, path: Path | None) -> None:
    """Refuses a file that cannot be written, before the model is loaded."""
    if path is None or (name == "--json" and path == Path("-")):
        return
    if path.is_dir() or not path.parent.is_dir():
        raise ParameterError(
            f"{name} {str(path)!r} cannot be written; name a file in a folder that exists."
        )


def _check_distinct(files: list[tuple[str, Path | None]]) -> None:
    """Refuses two options that name the same file, of which only one would be left."""
    names: dict[Path, str] = {}
    for name, path in files:
        if path is None:
            continue
        other = names.setdefault(path.absolute(), name)
        if other != name:
            raise ParameterError(
                f"{other} and {name} both name {str(path)!r}; give each a file of its own."
            )


def _load(options: Options) -> LLM:
    """Loads the model so that no run finds the prompt of an earlier one in the cache."""
    from rich.console import Console

    from oneglance.cli.progress import progress_bar
    from oneglance.llm import load

    config = replace(options.engine_config(), kept_prefixes=0)
    length = options.draft_length()
    with progress_bar(Console(stderr=True)) as report:
        return load(options.model, options.drafter, length, config, report, options.tree_nodes)


def _run(
    llm: LLM,
    text: str,
    options: Options,
    raw: bool,
    params: SamplingParams,
    rounds: int,
    is_quiet: bool,
) -> Trace:
    from rich.console import Console

    from oneglance.cli.provenance import provenance
    from oneglance.cli.show_terminal import Screen
    from oneglance.show.run import show_answer, shown_request

    request = shown_request(
        params,
        prompt=text,
        system=options.system,
        raw=raw,
        model=options.model,
        drafter=options.drafter,
        k=options.k,
        tree_nodes=options.tree_nodes,
    )
    command = ["oneglance", "show", text, *options.arguments(), *(["--raw"] if raw else [])]
    origin = provenance(shlex.join([*command, "--rounds", str(rounds)]))
    prompt = options.request(text)
    if is_quiet:
        return show_answer(llm, prompt, request, params, rounds, origin)
    screen = Screen(Console())
    screen.begin(request, llm.drafter_name, llm.engine.info)
    trace = show_answer(llm, prompt, request, params, rounds, origin, screen.add)
    screen.end(trace)
    return trace


def _write(
    trace: Trace, html_path: Path | None, svg_path: Path | None, json_path: Path | None
) -> None:
    from oneglance.show.page import make_page
    from oneglance.show.picture import make_picture
    from oneglance.show.trace_json import to_json

    files: list[tuple[str, Path | None, Callable[[Trace], str]]] = [
        ("--html", html_path, make_page),
        ("--svg", svg_path, make_picture),
        ("--json", json_path, lambda trace: to_json(trace) + "\n"),
    ]
    for name, path, make in files:
        if path is None:
            continue
        if name == "--json" and path == Path("-"):
            print(to_json(trace))
            continue
        try:
            path.write_text(make(trace), encoding="utf-8")
        except OSError as error:
            raise ParameterError(
                f"{name} {str(path)!r} cannot be written ({error.strerror}); name another file."
            ) from None
