"""`oneglance plan`: what speculation is worth here, with which drafter, how far, for how many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneglance.cli.options import EngineOption, Options, ThreadsOption, WeightsOption
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.control.plan import Draft
    from oneglance.llm import LLM

_PROMPTS = (
    "Rename the variable total to count in this code and return all of it:\n"
    "def add(numbers):\n    total = 0\n    for number in numbers:\n        total += number\n"
    "    return total\n",
    "Explain in a few sentences why the sky is blue.",
    "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
)
_TOKENS, _DRAFTED = 48, 4


def plan(
    model: Annotated[
        str, typer.Option("-m", "--model", metavar="MODEL", help="Name of a model or its file.")
    ] = Options.model,
    drafter: Annotated[
        list[str],
        typer.Option(
            "-d", "--drafter", metavar="DRAFTER", help="Drafters to compare; may be repeated."
        ),
    ] = ["suffix", "ngram"],  # noqa: B006 (typer copies it)
    prompt: Annotated[
        list[str],
        typer.Option("-p", "--prompt", metavar="TEXT", help="Prompts of yours; may be repeated."),
    ] = [],  # noqa: B006
    target_engine: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="vllm|llama.cpp|sglang",
            help="Print the advice as settings of that engine.",
        ),
    ] = "",
    regime: Annotated[
        bool, typer.Option("--regime", help="Measure at which batch size speculation stops paying.")
    ] = False,
    plot_path: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.svg", help="Where --regime draws its plot."),
    ] = None,
    engine: EngineOption = "auto",
    weights: WeightsOption = "auto",
    threads: ThreadsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure passes and drafters, and say what to use and what it brings."""
    from oneglance.cli.answer import load_model
    from oneglance.cli.plan_report import RegimeReport, Report
    from oneglance.control.other_engines import settings_for

    if target_engine:
        settings_for(target_engine, "ngram", 1)  # a name that is not known is refused at once
    if plot_path is not None and not regime:
        raise ParameterError("--plot draws what --regime measures; add --regime.")
    if plot_path is not None and (plot_path.suffix != ".svg" or not plot_path.parent.is_dir()):
        raise ParameterError(
            f"--plot {str(plot_path)!r} cannot be written; name an .svg file in a folder that "
            "exists."
        )
    options = Options(model=model, drafter="none", engine=engine, weights=weights, threads=threads)
    with load_model(options) as llm:
        measured = llm.calibrate()
        drafts = [
            _measure(llm, name, prompt or list(_PROMPTS), measured.seconds[0]) for name in drafter
        ]
        report = Report(measured, drafts)
        lines, result = report.lines(), report.to_dict()
        if target_engine:
            lines.append(f"{target_engine}: {report.settings(target_engine)}")
            result["settings"] = report.settings(target_engine)
        if regime:
            found = RegimeReport.measure(llm, report)
            lines += found.lines()
            result["regime"] = found.to_dict()
            if plot_path is not None:
                plot_path.write_text(found.plot(), encoding="utf-8")
    print(json.dumps(result) if as_json else "\n".join(lines))


def _measure(llm: LLM, drafter: str, prompts: list[str], one_row: float) -> tuple[Draft, float]:
    """A drafter on some prompts with a fixed length: its figures, and its tokens per pass."""
    from oneglance.control.plan import Draft

    passes = drafted_passes = kept = misses = drafted = delivered = 0
    seconds = 0.0
    for prompt in prompts:
        # A first answer lets a model that drafts read the prompt, which is no price of a token.
        llm.generate(prompt, drafter=drafter, k=_DRAFTED, max_tokens=2)
        answer = llm.generate(prompt, drafter=drafter, k=_DRAFTED, max_tokens=_TOKENS)
        delivered += answer.stats.delivered
        for each in answer.trace:
            passes += 1
            depth = len(each.draft_tokens)
            if depth:
                drafted_passes += 1
                drafted += depth
                kept += len(each.accepted)
                misses += len(each.accepted) < depth
        seconds += answer.stats.draft_seconds
    acceptance = kept / (kept + misses) if kept + misses else 0.0
    coverage = drafted_passes / passes if passes else 0.0
    cost = seconds / drafted / one_row if drafted else 0.0
    return Draft(drafter, acceptance, cost, coverage), delivered / max(passes, 1)
