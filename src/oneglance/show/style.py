"""The one style of all still pictures: readable on paper, and on light and dark pages."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

LIGHT = {
    "ground": "#ffffff",
    "ink": "#1a1f24",
    "faint": "#56616b",
    "rule": "#d5dbe0",
    "wrong": "#a8201a",
    "own": "#0058a3",
    "c0": "#0072b2",
    "c1": "#d55e00",
    "c2": "#009e73",
    "c3": "#b0569a",
}
DARK = {
    "ground": "#14181c",
    "ink": "#e6eaed",
    "faint": "#a3aeb7",
    "rule": "#39424a",
    "wrong": "#ff9089",
    "own": "#74bdf8",
    "c0": "#4fa8e0",
    "c1": "#f08a3c",
    "c2": "#35c49a",
    "c3": "#dc8fc6",
}
_RULES = """\
.ground { fill: var(--ground); }
text { fill: var(--ink); font: 13px system-ui, sans-serif; }
text.title { font-size: 15px; font-weight: 600; }
text.small { font-size: 12px; fill: var(--faint); }
text.mono { font: 14px ui-monospace, monospace; white-space: pre; }
text.pencil { fill: var(--faint); font-style: italic; }
text.wrong { fill: var(--wrong); text-decoration: line-through; }
text.behind, text.unused { fill: var(--faint); text-decoration: line-through; font-style: italic; }
text.unused { text-decoration: none; }
text.own { fill: var(--own); font-weight: 700; }
text.bonus { text-decoration: underline; }
.rule { stroke: var(--rule); }
.axis { stroke: var(--faint); }
.one { stroke: var(--ink); stroke-dasharray: 4 3; }
.whisker { stroke: var(--ink); stroke-width: 1.5; }
.stroke { fill: none; stroke-width: 2; }
.dashed { stroke-dasharray: 7 4; }
.empty { fill: none; stroke: var(--rule); }
"""


def standalone(svg: Element, title: str, description: str) -> str:
    """A drawing as a file of its own, with the style and a description for those who listen.

    Args:
        svg: with a `viewBox`; it is completed.
        title: short.
        description: what there is to see, with its figures.
    """
    _, _, width, height = svg.attrib["viewBox"].split()
    svg.set("xmlns", "http://www.w3.org/2000/svg")
    svg.set("width", width)
    svg.set("height", height)
    svg.set("role", "img")
    svg.set("aria-labelledby", "title description")
    svg.attrib.pop("aria-label", None)
    heading = Element("title", {"id": "title"})
    heading.text = title
    told = Element("desc", {"id": "description"})
    told.text = description
    style = Element("style")
    style.text = css()
    ground = Element("rect", {"class": "ground", "width": width, "height": height})
    for index, part in enumerate((heading, told, style, ground)):
        svg.insert(index, part)
    return tostring(svg, encoding="unicode") + "\n"


def css() -> str:
    """Colours for light and dark pages and for paper, and what uses them."""
    series = "".join(
        f".fill.series{number} {{ fill: var(--c{number}); }}\n"
        f".stroke.series{number} {{ stroke: var(--c{number}); }}\n"
        f"text.series{number} {{ fill: var(--c{number}); }}\n"
        for number in range(4)
    )
    return (
        f"\n:root {{ {_colours(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_colours(DARK)} }} }}\n"
        f"@media print {{ :root {{ {_colours(LIGHT)} }} }}\n{_RULES}{series}"
    )


def text_at(
    parent: Element, place: tuple[float, float], text: str, kind: str = "", anchor: str = "start"
) -> Element:
    """Text of a class of the style beside a point."""
    x, y = place
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    if kind:
        attributes["class"] = kind
    element = SubElement(parent, "text", attributes)
    element.text = text
    return element


def _colours(palette: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in palette.items())
