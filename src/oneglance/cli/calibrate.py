"""`oneglance calibrate`: what passes and drafts cost on this machine, measured in seconds."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from oneglance.cli.options import EngineOption, Options, ThreadsOption, WeightsOption

if TYPE_CHECKING:
    from oneglance.control.calibration import Calibration

_MODEL_HELP = "Name of a model (see oneglance models) or its file."


def calibrate(
    model: Annotated[
        str, typer.Option("-m", "--model", metavar="MODEL", help=_MODEL_HELP)
    ] = Options.model,
    drafter: Annotated[
        str,
        typer.Option(
            "-d", "--drafter", metavar="DRAFTER", help="Whose models are measured as well."
        ),
    ] = Options.drafter,
    engine: EngineOption = "auto",
    weights: WeightsOption = "auto",
    threads: ThreadsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure passes and drafts in under 5 seconds, and keep that for later runs."""
    from rich.console import Console

    from oneglance.cli.answer import load_model, print_line

    options = Options(model=model, drafter=drafter, engine=engine, weights=weights, threads=threads)
    with load_model(options) as llm:
        measured = llm.calibrate()
    if as_json:
        print(json.dumps(dataclasses.asdict(measured)))
        return
    console = Console()
    for line in describe(measured):
        print_line(console, line)


def describe(measured: Calibration) -> list[str]:
    """What was measured, in lines for a person."""
    one_row = measured.seconds[0]
    lines = ["rows     ms  × one row"]
    lines += [
        f"{rows:4} {1000 * seconds:6.1f}  {seconds / one_row:.2f}"
        for rows, seconds in zip(measured.rows, measured.seconds, strict=True)
    ]
    share = 1000 * measured.attention_share
    lines.append(f"1,000 tokens of context cost {share:.3f} passes of one row, for each row.")
    lines += [
        f"{name}: a draft costs {price.call:.2f} + {price.token:.2f} for each token + "
        f"{price.unseen:.3f} for each token that was decided without it, in passes of one row."
        for name, price in measured.drafts.items()
    ]
    return lines
