"""`oneglance bench`: drafters and servers on the same prompts, in paired runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneglance.cli.bench_options import BenchOptions
from oneglance.cli.options import EngineOption, Options, ThreadsOption, WeightsOption

if TYPE_CHECKING:
    from rich.console import Console

    from oneglance.bench.session import Session
    from oneglance.llm import LLM
    from oneglance.types import ProgressCallback


def bench(
    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            metavar="MODEL",
            help="Name of a model or its file; the default one is that of generate.",
        ),
    ] = None,
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            "-d",
            "--drafter",
            metavar="DRAFTER",
            help="A drafter to measure, as ngram, suffix@nodes=16 or draft:MODEL@k=6; may be "
            "repeated. Left out: ngram, suffix, auto.",
        ),
    ] = None,
    k: Annotated[
        str, typer.Option("-k", metavar="N,…", help="Values of K, with commas between.")
    ] = "auto",
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON lines as those of Spec-Bench or HumanEval; left out: eight of our own.",
        ),
    ] = None,
    limit_per_category: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N prompts of each.")
    ] = None,
    temperatures: Annotated[
        str, typer.Option(metavar="T,…", help="Answer each prompt at each temperature.")
    ] = "0",
    max_tokens: Annotated[
        int, typer.Option("-n", "--max-tokens", min=1, metavar="N", help="Of an answer, at most.")
    ] = 128,
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Answer each prompt N times.")
    ] = 3,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]URL",
            help="Measure an OpenAI-compatible server on the same prompts; may be repeated. Alone, "
            "without --model and --drafter, only servers are measured.",
        ),
    ] = None,
    endpoint_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the servers' models.")
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write figures and runs to FILE.")
    ] = None,
    html_path: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with drawings.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run of the same --json.")
    ] = False,
    engine: EngineOption = "auto",
    weights: WeightsOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Measure drafters against plain decoding, and servers, on the same prompts."""
    options = BenchOptions(
        model=model,
        drafters=tuple(drafter or ()),
        k=k,
        prompts=prompts,
        limit_per_category=limit_per_category,
        temperatures=temperatures,
        max_tokens=max_tokens,
        rounds=rounds,
        endpoints=tuple(endpoint or ()),
        endpoint_model=endpoint_model,
        json_path=json_path,
        html_path=html_path,
        is_resumed=resume,
        engine=Options(engine=engine, weights=weights, threads=threads),
    )
    options.check()
    run(options)


def run(options: BenchOptions) -> None:
    """Measures, shows the tables and writes the files; what there is, if it is interrupted.

    Raises:
        OneglanceError: something cannot be measured.
        typer.Exit: code 1, if a drafter changed an answer.
        KeyboardInterrupt: Ctrl-C, after the finished groups were shown and written.
    """
    from rich.console import Console

    from oneglance.bench.measure import DifferentAnswerError
    from oneglance.bench.session import check_interrupted, work_path
    from oneglance.cli.answer import print_note
    from oneglance.cli.progress import progress_bar
    from oneglance.cli.provenance import provenance

    check_interrupted(work_path(options.report_path), options.is_resumed)
    origin = provenance(options.command())
    is_interrupted = False
    taken_by: dict[str, int] = {}
    with progress_bar(Console(stderr=True)) as progress:
        session = make_session(options, origin, progress)
        try:
            taken_by = session.prepare()
            session.run(lambda number, total, _: progress("answers", number, total))
        except KeyboardInterrupt:
            is_interrupted = True
        except DifferentAnswerError as error:
            print(f"oneglance: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
        finally:
            session.work.remove_if_empty()
            if session.llm is not None:
                session.llm.close()
    if session.groups():
        show_and_write(options, session.report(origin, taken_by), Console())
    if is_interrupted:
        if session.groups() and session.work.path is not None:
            print_note("The same command with --resume goes on where this ended.")
        raise KeyboardInterrupt
    if session.work.path is not None:
        session.work.path.unlink(missing_ok=True)  # the report has every run


def make_session(
    options: BenchOptions, origin: dict[str, object], progress: ProgressCallback
) -> Session:
    """Finds the servers, loads the model and opens the file of finished groups."""
    import os

    from oneglance.bench.endpoint import find_endpoint
    from oneglance.bench.session import Session, settings_of, work_path
    from oneglance.bench.subject import check_labels
    from oneglance.bench.variant import make_variants
    from oneglance.bench.work import WorkFile
    from oneglance.environment import read_environment

    load_average = os.getloadavg()[0]
    file = options.read_prompts()
    plan = options.plan(file)
    key = read_environment().api_key
    endpoints = [find_endpoint(text, options.endpoint_model, key) for text in options.endpoints]
    llm = _load(options, progress) if options.has_variants else None
    variants = [] if llm is None else make_variants(options.drafters_with_lengths(), llm)
    check_labels([*variants, *endpoints])
    settings = settings_of(options.model_name if llm else None, llm, file, plan, origin)
    settings["endpoints"] = {each.label: each.describe() for each in endpoints}
    work = WorkFile(work_path(options.report_path), settings)
    work.open(load_average)
    return Session(plan, variants, endpoints, llm, work)


def show_and_write(options: BenchOptions, report: dict[str, Any], console: Console) -> None:
    """Prints the tables and what they say; writes the files that were asked for."""
    from oneglance.bench.grid import busy_warning
    from oneglance.bench.page import make_page
    from oneglance.bench.report import write_report
    from oneglance.bench.tables import bench_grids
    from oneglance.bench.words import findings, machine_facts
    from oneglance.cli.answer import print_line

    for name, value in machine_facts(report):
        print_line(console, f"{name}: {value}")
    for grid in bench_grids(report):
        console.print()
        console.print(grid.to_rich())
    for sentence in [*findings(report), busy_warning(report)]:
        print_line(console, sentence)
    if options.json_path is not None:
        write_report(options.json_path, report)
    if options.html_path is not None:
        options.html_path.write_text(make_page(report), encoding="utf-8")


def _load(options: BenchOptions, progress: ProgressCallback) -> LLM:
    """Loads the model so that no run finds the prompt of an earlier one in the cache."""
    from oneglance.llm import load

    config = replace(options.engine.engine_config(), kept_prefixes=0)
    return load(options.model_name, "none", engine_config=config, progress=progress)
