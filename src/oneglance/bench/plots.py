"""The drawings of a report: speedups by category, acceptance by depth, where the time went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from oneglance.bench import svg
from oneglance.bench.figures import ALL
from oneglance.bench.grid import show
from oneglance.bench.tables import PHASES, categories_of, law_of, speedup_key
from oneglance.bench.timing import Spread

LEFT, RIGHT = 150.0, 24.0
"""Room for the names of rows, and for the last number of an axis."""
BAR, GAP, AXIS = 12.0, 12.0, 34.0
PLOT_HEIGHT = 220.0

Report = Mapping[str, Any]


def speedup_plot(report: Report, temperature: str) -> str:
    """A bar for each drafter in each category, with its quartiles; a line stands at 1."""
    categories = categories_of(report, temperature)
    key = speedup_key(report, temperature)
    _, *labels = next(iter(categories.values()))
    spreads = {
        (category, label): Spread(*subjects[label][key])
        for category, subjects in categories.items()
        for label in labels
    }
    axis = Axis.to(max((spread.high for spread in spreads.values()), default=1.0))
    row = len(labels) * BAR + GAP
    height = len(categories) * row + AXIS
    drawing = svg.drawing(height, f"Times as fast, {law_of(report, temperature)}")
    _x_axis(drawing, height - AXIS, axis, "g")
    for row_index, category in enumerate(categories):
        y = row_index * row + GAP / 2
        svg.label(drawing, (LEFT - 8, y + (row - GAP) / 2 + 4), category, "end")
        for index, label in enumerate(labels):
            spread = spreads[category, label]
            _whiskered(drawing, y + index * BAR, spread, axis.top, index, f"{category}, {label}")
    svg.line(drawing, (_x(1, axis.top), 0), (_x(1, axis.top), height - AXIS), "one")
    return svg.to_text(drawing)


def depth_plot(report: Report, temperature: str) -> str:
    """A line for each drafter: of the passes that drafted at a depth, the share that accepted."""
    _, *labels = summaries_of(report, temperature)
    curves = {label: summaries_of(report, temperature)[label]["depths"] for label in labels}
    deepest = max(map(len, curves.values()), default=0)
    if deepest == 0:
        return ""
    drawing = svg.drawing(PLOT_HEIGHT + AXIS, f"Acceptance by depth, {law_of(report, temperature)}")
    _share_axis(drawing)
    step = max(1, math.ceil(deepest / 16))
    for depth in range(1, deepest + 1, step):
        svg.label(drawing, (_depth_x(depth, deepest), PLOT_HEIGHT + 16), str(depth), "middle")
    svg.label(drawing, (svg.WIDTH / 2, PLOT_HEIGHT + 31), "depth", "middle")
    for index, (label, depths) in enumerate(curves.items()):
        points = [
            (_depth_x(depth, deepest), _share_y(accepted / drafted))
            for depth, (drafted, accepted) in enumerate(depths, 1)
        ]
        svg.path_through(drawing, points, svg.series_class(index, "stroke"))
        for depth, (point, (drafted, accepted)) in enumerate(zip(points, depths, strict=True), 1):
            title = f"{label}, depth {depth}: {accepted / drafted:.2f} ({drafted})"
            svg.dot(drawing, point, svg.series_class(index, "fill"), title)
    return svg.to_text(drawing)


def share_plot(report: Report, temperature: str) -> str:
    """Where each subject's seconds went, as a bar of parts; those that do not tell are left out."""
    told = {
        label: summary["shares"]
        for label, summary in summaries_of(report, temperature).items()
        if summary["shares"] is not None
    }
    if not told:
        return ""
    row = 1.5 * BAR + GAP
    height = len(told) * row + AXIS
    drawing = svg.drawing(height, f"Shares of the time, {law_of(report, temperature)}")
    _x_axis(drawing, height - AXIS, Axis.to(1.0), ".0%")
    for row_index, (label, shares) in enumerate(told.items()):
        y = row_index * row + GAP / 2
        svg.label(drawing, (LEFT - 8, y + BAR), _shortened(label), "end")
        start = 0.0
        for index, (phase, name) in enumerate(PHASES.items()):
            share = max(shares[phase], 0.0)
            corner, size = (_x(start, 1), y), (_x(share, 1) - LEFT, 1.5 * BAR)
            title = f"{label}, {name}: {shares[phase]:.1%}"
            svg.bar(drawing, corner, size, svg.series_class(index, "fill"), title)
            start += share
    return svg.to_text(drawing)


def summaries_of(report: Report, temperature: str) -> Mapping[str, Any]:
    """The summaries of all categories together, by subject."""
    found: Mapping[str, Any] = report["results"][f"{temperature} {ALL}"]
    return found


@dataclass(frozen=True)
class Axis:
    """Numbers from 0 on, the same step between two of them.

    Attributes:
        step: 1, 2 or 5 of a power of ten.
        count: of steps.
    """

    step: float
    count: int

    @classmethod
    def to(cls, highest: float) -> Axis:
        """At most six steps, of which the last is not below the highest value, nor below 1."""
        top = max(highest, 1.0)
        power = 10.0 ** math.floor(math.log10(top / 6))
        step = next(power * factor for factor in (1, 2, 5, 10) if 6 * power * factor >= top)
        return cls(step, math.ceil(top / step - 1e-9))

    @property
    def top(self) -> float:
        """Where it ends."""
        return self.step * self.count


def _x(value: float, top: float) -> float:
    return LEFT + value / top * (svg.WIDTH - LEFT - RIGHT)


def _x_axis(drawing: Element, bottom: float, axis: Axis, form: str) -> None:
    for number in range(axis.count + 1):
        x = _x(number * axis.step, axis.top)
        svg.line(drawing, (x, 0), (x, bottom), "rule")
        svg.label(drawing, (x, bottom + 16), f"{number * axis.step:{form}}", "middle")


def _whiskered(
    drawing: Element, y: float, spread: Spread, top: float, index: int, name: str
) -> None:
    size = (_x(spread.middle, top) - LEFT, BAR - 2)
    title = f"{name}: {show(spread, '.2f')}"
    svg.bar(drawing, (LEFT, y + 1), size, svg.series_class(index, "fill"), title)
    middle = y + BAR / 2
    svg.line(drawing, (_x(spread.low, top), middle), (_x(spread.high, top), middle), "whisker")


def _share_axis(drawing: Element) -> None:
    for tenth in range(0, 11, 2):
        y = _share_y(tenth / 10)
        svg.line(drawing, (LEFT, y), (svg.WIDTH - RIGHT, y), "rule")
        svg.label(drawing, (LEFT - 8, y + 4), f"{tenth / 10:.1f}", "end")


def _share_y(share: float) -> float:
    return 8 + (1 - share) * (PLOT_HEIGHT - 8)


def _depth_x(depth: int, deepest: int) -> float:
    return LEFT + (depth - 0.5) / deepest * (svg.WIDTH - LEFT - RIGHT)


def _shortened(label: str, most: int = 22) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
