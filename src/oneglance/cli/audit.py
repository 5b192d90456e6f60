"""`oneglance audit rules | model | endpoint`: what is exact, and where exactness is lost."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneglance.cli.options import (
    EngineOption,
    Options,
    ThreadsOption,
    WeightsOption,
    parse_draft_length,
)
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.audit.endpoint.server import Api
    from oneglance.audit.verdict import Report, Verdict

app = typer.Typer(
    help="Show that decoding is exact: rules, a loaded model, or any server.", rich_markup_mode=None
)

JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the report to FILE as JSON.")
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write it to FILE as one page.")
]
AlphaOption = Annotated[
    float, typer.Option(metavar="NUMBER", help="Chance of any false alarm in the whole report.")
]
SeedOption = Annotated[int, typer.Option("-s", "--seed", min=0, metavar="N", help="Of the audit.")]
SamplesOption = Annotated[
    int, typer.Option(min=10, metavar="N", help="Sampled answers, over all prompts together.")
]

WIDE = 160
"""Columns of a table that goes into a pipe or file."""


@app.command("rules")
def rules_command(
    tables: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random tables of each kind.")
    ] = 2,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    html_path: HtmlOption = None,
) -> None:
    """Enumerate every accept rule on random tables, and rules broken on purpose."""
    from oneglance.audit.rules.audit import audit_rules

    _check_paths(json_path, html_path)
    with _progress() as report:
        verdicts = audit_rules(tables, seed, report)
    facts = {"tables_of_each_kind": tables, "seed": seed}
    _finish("Accept rules under enumeration", verdicts, 0.0, facts, json_path, html_path)


@app.command("model")
def model_command(
    model: Annotated[
        str, typer.Option("-m", "--model", metavar="MODEL", help="Its name or file.")
    ] = "smollm2-135m",
    drafters: Annotated[
        list[str] | None,
        typer.Option(
            "-d", "--drafter", metavar="DRAFTER", help="Who drafts; may be repeated.  [ngram]"
        ),
    ] = None,
    k: Annotated[str, typer.Option("-k", metavar="N|auto", help="Most tokens in a row.")] = "4",
    tree_nodes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Sample with trees of up to N draft tokens."),
    ] = None,
    samples: SamplesOption = 100,
    tokens: Annotated[
        int, typer.Option(min=2, metavar="N", help="Length of greedy and seeded answers.")
    ] = 32,
    alpha: AlphaOption = 0.01,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    html_path: HtmlOption = None,
    engine: EngineOption = "auto",
    weights: WeightsOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Audit a loaded model with each drafter: bits, tokens, and the law of sampled answers."""
    from oneglance.audit.model.audit import audit_model
    from oneglance.audit.model.law import ModelSizes

    _check_paths(json_path, html_path)
    _check_alpha(alpha)
    names = list(dict.fromkeys(drafters or ["ngram"]))
    config = Options(engine=engine, weights=weights, threads=threads).engine_config()
    sizes = ModelSizes(num_tokens=tokens, num_samples=samples, alpha=alpha, seed=seed)
    with _progress() as report:
        verdicts = audit_model(
            model,
            names,
            k=parse_draft_length(k),
            tree_nodes=tree_nodes,
            engine_config=config,
            sizes=sizes,
            progress=report,
        )
    facts = {"model": model, "drafters": ", ".join(names), "k": k, "tree_nodes": tree_nodes}
    facts |= {"samples": samples, "seed": seed}
    _finish(f"{model} with {', '.join(names)}", verdicts, alpha, facts, json_path, html_path)


@app.command("endpoint")
def endpoint_command(
    url: Annotated[
        str, typer.Argument(metavar="URL", show_default=False, help="As http://127.0.0.1:8000/v1.")
    ],
    against: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A server to compare with: the same, not speculating."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", metavar="NAME", help="In requests; else the first listed."),
    ] = None,
    api: Annotated[
        str, typer.Option(metavar="both|completions|chat", help="Which API to look at.")
    ] = "both",
    checks: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME", help="Only this check; may be repeated."),
    ] = None,
    prompts: Annotated[
        list[str] | None,
        typer.Option("--prompt", metavar="TEXT", help="Use this text; may be repeated."),
    ] = None,
    samples: SamplesOption = 200,
    tokens: Annotated[int, typer.Option(min=2, metavar="N", help="Length of greedy answers.")] = 48,
    context: Annotated[
        int | None, typer.Option(min=16, metavar="N", help="Context length, if it is not told.")
    ] = None,
    alpha: AlphaOption = 0.01,
    seed: SeedOption = 0,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="For each answer.")
    ] = 120,
    json_path: JsonOption = None,
    html_path: HtmlOption = None,
) -> None:
    """Audit any server with OpenAI's API; OPENAI_API_KEY is sent to it if that is set."""
    from oneglance.audit.endpoint.audit import audit_endpoint
    from oneglance.audit.endpoint.session import Sizes
    from oneglance.environment import read_environment

    _check_paths(json_path, html_path)
    _check_alpha(alpha)
    sizes = Sizes(num_tokens=tokens, num_samples=samples, alpha=alpha, seed=seed)
    with _progress() as report:
        verdicts = audit_endpoint(
            url,
            against,
            model=model,
            api_key=read_environment().api_key,
            apis=_apis(api),
            only=checks or (),
            sizes=sizes,
            prompts=prompts,
            context_length=context,
            timeout_seconds=timeout,
            progress=report,
        )
    facts = {"url": url, "against": against, "model": model, "samples": samples, "seed": seed}
    _finish(f"Audit of {url}", verdicts, alpha, facts, json_path, html_path)


def _apis(text: str) -> tuple[Api, ...]:
    from oneglance.audit.endpoint.server import APIS

    if text == "both":
        return APIS
    if text not in APIS:
        raise ParameterError(f"--api {text!r} is not known; choose both, completions or chat.")
    return (text,)


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ParameterError(f"--alpha {alpha} cannot be used; give a number between 0 and 1.")


def _check_paths(*paths: Path | None) -> None:
    for path in paths:
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ParameterError(
                f"{str(path)!r} cannot be written; name a file in a folder that exists."
            )


def _progress() -> Any:
    from rich.console import Console

    from oneglance.cli.progress import progress_bar

    return progress_bar(Console(stderr=True))


def _finish(
    title: str,
    verdicts: Sequence[Verdict],
    alpha: float,
    facts: dict[str, Any],
    json_path: Path | None,
    html_path: Path | None,
) -> None:
    """Shows the report, writes it, and ends with 1 if there is a fault."""
    from oneglance.audit.page import render_page
    from oneglance.audit.verdict import Report
    from oneglance.cli.provenance import provenance

    command = shlex.join(["oneglance", *sys.argv[1:]])
    report = Report(title, tuple(verdicts), alpha, {**facts, **provenance(command)})
    _show(report)
    if json_path is not None:
        text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False, default=str)
        _write(json_path, text + "\n")
    if html_path is not None:
        _write(html_path, render_page(report))
    if report.has_fault:
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ParameterError(
            f"{str(path)!r} cannot be written ({error.strerror}); name another file."
        ) from None


def _show(report: Report) -> None:
    """The verdicts as a table, and how many there are of each kind."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from oneglance.audit.verdict import STATUSES

    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    colours = {"fault": "bold red", "pass": "green", "not offered": "dim"}
    table = Table(box=box.SIMPLE_HEAD, title=report.title, title_justify="left")
    for name in ("of", "property", "verdict"):
        table.add_column(name)
    table.add_column("looked at", justify="right", no_wrap=True)
    table.add_column("p (Holm)", justify="right", no_wrap=True)
    table.add_column("what was found", ratio=1)
    for verdict in report.verdicts:
        colour = colours.get(verdict.status, "yellow")
        p_text = "" if verdict.adjusted_p is None else f"{verdict.adjusted_p:.3g}"
        table.add_row(
            verdict.subject,
            verdict.check,
            f"[{colour}]{verdict.status}[/]",
            f"{verdict.sample_size} {verdict.unit}",
            p_text,
            _found(verdict),
        )
    console.print(table)
    for status in STATUSES:
        if report.count(status):
            word = _plain(f"{report.count(status)} {status}")
            console.print(f"[{colours.get(status, 'yellow')}]{word}[/]", end="  ")
    console.print()


def _found(verdict: Verdict) -> str:
    from oneglance.show.visible import harmless

    found = _plain(harmless(verdict.detail))
    return f"{found} [dim]Power: {_plain(verdict.power)}.[/]" if verdict.power else found


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
