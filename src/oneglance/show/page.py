"""A trace as one HTML page that opens from disk: whiteboard, figures, and the trace as JSON."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from oneglance.show.trace import Request, Trace
from oneglance.show.trace_json import to_dict

STATIC = Path(__file__).parent / "static"
"""Styles and scripts that draw a trace; they need nothing but each other, in this order."""
SCRIPTS = ("trace.js", "whiteboard.js", "figures.js")
STYLE = "whiteboard.css"
TEMPLATE = "page.html"
TITLE_LENGTH = 60


def make_page(trace: Trace) -> str:
    """The page, complete in itself: nothing is fetched from anywhere."""
    environment = Environment(
        loader=FileSystemLoader(STATIC),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    prompt = " ".join(trace.request.prompt.split())
    is_long = len(prompt) > TITLE_LENGTH
    return environment.get_template(TEMPLATE).render(
        trace=to_dict(trace),
        title=f"{prompt[:TITLE_LENGTH]}…" if is_long else prompt,
        facts=request_line(trace.request, trace.engine["kind"], trace.engine["isa"]),
        origin=[(name.replace("_", " "), value) for name, value in trace.origin.items()],
        style=_static(STYLE),
        scripts=[_static(name) for name in SCRIPTS],
    )


def request_line(request: Request, engine: str, isa: str | None) -> str:
    """What was asked of whom, in one line."""
    parts = [request.model, f"drafter {request.drafter}", f"K {request.k}", request.law]
    if request.seed is not None:
        parts.append(f"seed {request.seed}")
    if request.tree_nodes is not None:
        parts.append(f"up to {request.tree_nodes} tokens a draft")
    parts += [f"{name} {value}" for name, value in request.sampling.items()]
    parts.append(f"{engine} engine" + (f" ({isa})" if isa else ""))
    if request.system is not None:
        parts.append(f"system message: {request.system}")
    return " · ".join(parts)


def _static(name: str) -> Markup:
    """A file of the package, which is trusted; it must not end the element it stands in."""
    text = (STATIC / name).read_text(encoding="utf-8")
    assert "</s" not in text, "it would end its own element"
    return Markup(text)
