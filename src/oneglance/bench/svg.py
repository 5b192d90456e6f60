"""Elements of an SVG drawing; colours and fonts are those of the page that it stands in."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

WIDTH = 760.0
"""Of every drawing, in its own units; the page scales it."""
NUM_SERIES = 8
"""Colours that the page has; more series begin again."""


def drawing(height: float, description: str) -> Element:
    """An empty drawing with a description for those who cannot see it."""
    svg = Element("svg", {"viewBox": f"0 0 {WIDTH:g} {height:g}", "role": "img"})
    svg.set("aria-label", description)
    return svg


def line(parent: Element, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
    """A line; `kind` is its class in the page's style."""
    (x1, y1), (x2, y2) = start, end
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    SubElement(parent, "line", {"class": kind, **_numbers(ends)})


def bar(
    parent: Element, corner: tuple[float, float], size: tuple[float, float], kind: str, title: str
) -> None:
    """A filled rectangle with a title that is shown where the pointer rests."""
    (x, y), (width, height) = corner, size
    box = {"x": x, "y": y, "width": max(width, 0.0), "height": height}
    _titled(SubElement(parent, "rect", {"class": kind, **_numbers(box)}), title)


def dot(parent: Element, centre: tuple[float, float], kind: str, title: str) -> None:
    """A small filled circle with a title."""
    place = {"cx": centre[0], "cy": centre[1], "r": 3.5}
    _titled(SubElement(parent, "circle", {"class": kind, **_numbers(place)}), title)


def path_through(parent: Element, points: list[tuple[float, float]], kind: str) -> None:
    """Straight lines from point to point."""
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    SubElement(parent, "polyline", {"class": kind, "points": text})


def label(parent: Element, place: tuple[float, float], text: str, anchor: str = "start") -> None:
    """Text beside a point; `anchor` is start, middle or end."""
    x, y = place
    element = SubElement(parent, "text", {**_numbers({"x": x, "y": y}), "text-anchor": anchor})
    element.text = text


def series_class(index: int, kind: str) -> str:
    """The classes of a mark of one series: `fill` or `stroke` of its colour."""
    return f"{kind} series{index % NUM_SERIES}"


def to_text(svg: Element) -> str:
    """The drawing as a part of a page; names and titles are escaped."""
    return tostring(svg, encoding="unicode")


def _numbers(values: dict[str, float]) -> dict[str, str]:
    return {name: f"{value:.1f}" for name, value in values.items()}


def _titled(element: Element, title: str) -> None:
    SubElement(element, "title").text = title
