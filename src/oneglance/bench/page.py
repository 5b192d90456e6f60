"""A report as one HTML page that opens from disk: drawings, tables, and the figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from oneglance.bench.grid import busy_warning
from oneglance.bench.plots import depth_plot, share_plot, speedup_plot, summaries_of
from oneglance.bench.svg import NUM_SERIES
from oneglance.bench.tables import (
    PHASES,
    depth_grid,
    law_of,
    speedup_grid,
    subject_grid,
    temperatures_of,
)
from oneglance.bench.words import findings, machine_facts, origin_facts

TEMPLATE = "page.html"

Report = Mapping[str, Any]


def make_page(report: Report) -> str:
    """The page, complete in itself: nothing is fetched from anywhere.

    Args:
        report: as `oneglance bench --json` writes it.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(
        report=dict(report),
        warning=busy_warning(report),
        findings=findings(report),
        facts=origin_facts(report) + machine_facts(report),
        sections=[_section(report, temperature) for temperature in temperatures_of(report)],
        phases=_legend(list(PHASES.values())),
        num_series=NUM_SERIES,
    )


def _section(report: Report, temperature: str) -> dict[str, Any]:
    _, *labels = summaries_of(report, temperature)
    plots = (speedup_plot, depth_plot, share_plot)
    grids = (speedup_grid, subject_grid, depth_grid)
    speedups, depths, shares = (Markup(plot(report, temperature)) for plot in plots)
    return {
        "law": law_of(report, temperature),
        "legend": _legend(labels),
        "speedups": speedups,
        "depths": depths,
        "shares": shares,
        "grids": [grid for each in grids if (grid := each(report, temperature)).rows],
    }


def _legend(names: list[str]) -> list[tuple[int, str]]:
    """Number of the colour, and what has it."""
    return [(index % NUM_SERIES, name) for index, name in enumerate(names)]
