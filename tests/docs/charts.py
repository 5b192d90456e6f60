"""Axes, lines and bars of the pictures, on the elements and in the style of the package."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from oneglance.bench import svg
from oneglance.show.style import text_at

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """A pair of axes that begin at zero, or at `x_low` to the right.

    Attributes:
        corner: of the plotting area, upper left.
        size: of it.
        x_low: value at the left edge.
        x_high: value at the right edge.
        y_high: value at the upper edge.
    """

    corner: Point
    size: Point
    x_low: float
    x_high: float
    y_high: float

    def place(self, x: float, y: float) -> Point:
        """Where a point lies in the drawing."""
        (left, top), (width, height) = self.corner, self.size
        share = (x - self.x_low) / (self.x_high - self.x_low)
        return left + share * width, top + (1.0 - y / self.y_high) * height

    def frame(
        self, drawing: Element, x_ticks: Mapping[float, str], x_label: str, y_label: str
    ) -> None:
        """Axes with their numbers and names; rules across at each number of the upright one."""
        (left, top), (width, height) = self.corner, self.size
        bottom = top + height
        for value in ticks(self.y_high):
            _, y = self.place(self.x_low, value)
            svg.line(drawing, (left, y), (left + width, y), "rule")
            text_at(drawing, (left - 8, y + 4), f"{value:g}", "small", "end")
        svg.line(drawing, (left, bottom), (left + width, bottom), "axis")
        for value, text in x_ticks.items():
            x, _ = self.place(value, 0)
            text_at(drawing, (x, bottom + 18), text, "small", "middle")
        text_at(drawing, (left + width / 2, bottom + 38), x_label, "small", "middle")
        text_at(drawing, (left - 30, top - 14), y_label, "small")

    def curve(
        self,
        drawing: Element,
        points: Sequence[Point],
        series: int,
        is_dashed: bool = False,
        has_dots: bool = True,
    ) -> None:
        """A line through points; dashed ones are not measured."""
        placed = [self.place(*point) for point in points]
        kind = svg.series_class(series, "stroke") + (" dashed" if is_dashed else "")
        svg.path_through(drawing, placed, kind)
        if has_dots:
            for place, (x, y) in zip(placed, points, strict=True):
                svg.dot(drawing, place, svg.series_class(series, "fill"), f"{x:g}: {y:.3g}")

    def across(self, drawing: Element, y: float) -> None:
        """A dashed line at a height, such as 1."""
        svg.line(drawing, self.place(self.x_low, y), self.place(self.x_high, y), "one")


def ticks(high: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to at most `high`, the steps 1, 2 or 5 of a power of ten."""
    power = 10.0 ** math.floor(math.log10(high / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if high / (power * factor) <= most)
    return [round(number * step, 10) for number in range(int(high / step + 1e-9) + 1)]


def legend(drawing: Element, place: Point, names: Sequence[tuple[str, str]]) -> None:
    """Names of series below each other, each with what marks it.

    Args:
        drawing: gets them.
        place: where the first name's line of writing begins.
        names: "bar", "dots", "line" or "dashed" for each, and the name.
    """
    x, y = place
    for series, (kind, name) in enumerate(names):
        if kind == "bar":
            svg.bar(drawing, (x, y - 9), (14, 10), svg.series_class(series, "fill"), name)
        else:
            style = svg.series_class(series, "stroke") + (" dashed" if kind == "dashed" else "")
            svg.path_through(drawing, [(x, y - 4), (x + 28, y - 4)], style)
            if kind == "dots":
                svg.dot(drawing, (x + 14, y - 4), svg.series_class(series, "fill"), name)
        text_at(drawing, (x + 36, y), name)
        y += 20


def new_drawing(height: float, title: str) -> Element:
    """An empty drawing with its title in it."""
    drawing = svg.drawing(height, title)
    text_at(drawing, (16, 26), title, "title")
    return drawing
