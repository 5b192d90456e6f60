"""A trace as a still picture, SVG: every pass a line, in pencil, ink and red."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from rich.cells import cell_len

from oneglance.show.branches import branches
from oneglance.show.figures import figures, race_sentence
from oneglance.show.style import standalone, text_at
from oneglance.show.trace import Pass, Trace

WIDTH = 760.0
LEFT, RIGHT = 48.0, 16.0
CELL = 8.4
"""Width of a character of the fixed-width font, which is stretched or squeezed to it."""
LINE = 22.0
COLUMNS = int((WIDTH - LEFT - RIGHT) / CELL)
LEGEND = (
    ("mono", "kept"),
    ("mono wrong", "first wrong token"),
    ("mono behind", "struck with it"),
    ("mono own", "the expert's own"),
    ("mono own bonus", "its bonus"),
)


@dataclass(frozen=True)
class Piece:
    """Some characters of one style."""

    kind: str
    text: str


def make_picture(trace: Trace) -> str:
    """The picture, as text of a file of its own."""
    svg = Element("svg")
    y = _heading(svg, trace)
    for number, item in enumerate(trace.passes, 1):
        text_at(svg, (LEFT - 10, y), str(number), "small", "end")
        for line in wrap(pass_pieces(item)):
            _write(svg, line, y)
            y += LINE
        y += 4
    found = figures(trace)
    words = (
        f"{found.delivered} tokens in {found.passes} passes: "
        f"{found.mean_accepted_length:.2f} a pass."
    )
    if found.race is not None:
        words = f"{words} {race_sentence(found.race)}"
    y += 6
    for line in wrap([Piece("small", words)]):
        text_at(svg, (LEFT, y), "".join(piece.text for piece in line), "small")
        y += 18
    svg.set("viewBox", f"0 0 {WIDTH:g} {y:g}")
    return standalone(svg, f"An answer in {found.passes} passes", describe(trace))


def pass_pieces(item: Pass) -> list[Piece]:
    """A pass from left to right; the target's own stands beside the first wrong token."""
    lines = branches(item)
    main = lines[0] if lines else []
    pieces = [Piece("mono", item.nodes[node].shown) for node in item.accepted]
    rest = [Piece(f"mono {item.nodes[node].fate}", item.nodes[node].shown) for node in main]
    rest = rest[len(item.accepted) :]
    own = []
    if item.own is not None:
        bonus = " bonus" if item.own.kind == "bonus" else ""
        own = [Piece(f"mono own{bonus}", item.own.shown)]
    beside = 1 if item.first_wrong is not None else 0
    pieces += [*rest[:beside], *own, *rest[beside:]]
    for branch in lines[1:]:
        pieces.append(Piece("mono rule", " │ "))
        pieces += [
            Piece(f"mono {item.nodes[node].fate}", item.nodes[node].shown) for node in branch
        ]
    return pieces


def wrap(pieces: list[Piece], columns: int = COLUMNS) -> list[list[Piece]]:
    """Lines of at most so many columns, broken between pieces, in words where one is too long."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for piece in pieces:
        for part in _parts(piece.text, columns):
            width = cell_len(part)
            if used and used + width > columns:
                lines.append([])
                used = 0
            lines[-1].append(Piece(piece.kind, part))
            used += width
    return lines


def _parts(text: str, columns: int) -> list[str]:
    """A text whole where it fits, else its words, else as many characters as fit."""
    if cell_len(text) <= columns // 4:
        return [text]
    words = [f"{word} " for word in text.split(" ")]
    words[-1] = words[-1][:-1]
    parts: list[str] = []
    for word in words:
        while cell_len(word) > columns:
            parts.append(word[: columns // 2])
            word = word[columns // 2 :]
        parts.append(word)
    return [part for part in parts if part]


def describe(trace: Trace) -> str:
    """The picture in words."""
    sentences = []
    for number, item in enumerate(trace.passes, 1):
        kept = "".join(item.nodes[node].shown for node in item.accepted)
        parts = [f"kept “{kept}”"] if kept else []
        if item.first_wrong is not None:
            parts.append(f"struck out “{item.nodes[item.first_wrong].shown}”")
        if item.own is not None:
            parts.append(f"wrote “{item.own.shown}”")
        sentences.append(f"Pass {number}: {', '.join(parts) or 'nothing'}.")
    return " ".join(sentences)


def _heading(svg: Element, trace: Trace) -> float:
    """The prompt and the legend; returns where the passes begin."""
    prompt = " ".join(trace.request.prompt.split())
    shown = f"{prompt[:80]}…" if len(prompt) > 80 else prompt
    text_at(svg, (LEFT, 28), shown, "title")
    x = LEFT
    for kind, text in LEGEND:
        _token(svg, Piece(kind, text), x, 54)
        x += (len(text) + 3) * CELL
    return 88.0


def _write(svg: Element, line: list[Piece], y: float) -> None:
    x = LEFT
    for piece in line:
        _token(svg, piece, x, y)
        x += cell_len(piece.text) * CELL


def _token(svg: Element, piece: Piece, x: float, y: float) -> None:
    element = text_at(svg, (x, y), piece.text, piece.kind)
    element.set("xml:space", "preserve")
    element.set("textLength", f"{cell_len(piece.text) * CELL:.1f}")
    element.set("lengthAdjust", "spacingAndGlyphs")
