"""A table of figures as text, for the terminal, for documents and for pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from oneglance.bench.timing import Spread

NONE = "–"
"""A cell for which there is no figure."""


@dataclass(frozen=True)
class Grid:
    """A table: a title, headings, and rows of as many cells."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_rich(self) -> Table:
        """For a terminal."""
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        for index, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if index == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def to_markdown(self) -> str:
        """For a document: the title as a line of its own."""
        rule = ("---",) + ("--:",) * (len(self.headings) - 1)
        lines = [f"| {' | '.join(row)} |" for row in (self.headings, rule, *self.rows)]
        return "\n".join([f"{self.title}:", "", *lines])


def show(spread: Spread, form: str) -> str:
    """Median and quartiles as text."""
    return f"{spread.middle:{form}} ({spread.low:{form}}–{spread.high:{form}})"


def spread_text(samples: list[float], form: str) -> str:
    """Median and quartiles of samples."""
    return show(Spread.of(samples), form)


def busy_warning(report: Mapping[str, Any]) -> str:
    """A sentence, if other programs took the processor when the measurement began; else empty."""
    load, cores = report["load_average_before"][0], report["cores"]
    if load < cores / 2:
        return ""
    return (
        f"The machine was busy with other work (load average {load:.1f} on {cores} cores), so "
        "these figures are no measure of the engine."
    )
