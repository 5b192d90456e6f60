"""The pictures of docs/how-it-works.md, drawn from what `make measure-pictures` wrote.

`make pictures` (`python -m tests.docs.pictures`) draws them and writes the figures into the
document; a test compares both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from oneglance.bench import svg
from oneglance.bench.grid import busy_warning
from oneglance.show.picture import make_picture
from oneglance.show.style import standalone, text_at
from oneglance.show.trace_json import from_dict
from tests.docs.charts import Panel, legend, new_drawing
from tests.docs.documents import ROOT, write_blocks
from tests.docs.performance import load_report, origin
from tests.docs.picture_figures import (
    GUESSES,
    LENGTHS,
    Report,
    captions,
    first_losing_batch,
    idle_share,
    names_of_drafters,
    speedup_curves,
    throughputs,
    token_curves,
)

DOCUMENT = ROOT / "docs" / "how-it-works.md"
FOLDER = ROOT / "docs" / "pictures"
MEASUREMENT = ROOT / "docs" / "measurements" / "pictures.json"
NAMES = ("sweep", "rows", "sentence", "laws", "length", "batch")
SHOWN_TOKENS = 6


def pictures(report: Report) -> dict[str, str]:
    """File name and content of every picture."""
    told = captions(report)
    drawn = {
        "sweep": sweep(report),
        "rows": rows(report),
        "laws": laws(report),
        "length": length(report),
        "batch": batch(report),
    }
    files = {
        name: standalone(drawing, titles()[name], told[name]) for name, drawing in drawn.items()
    }
    files["sentence"] = make_picture(from_dict(report["sentence"]))
    return {f"{number}-{name}.svg": files[name] for number, name in enumerate(NAMES, 1)}


def titles() -> dict[str, str]:
    """What each picture is of, in a few words."""
    return {
        "sweep": "One token, one sweep through all weights",
        "rows": "A pass by the number of tokens it looks at",
        "sentence": "One sentence, pass by pass",
        "laws": "What two rules make of the model's law",
        "length": "What longer drafts bring",
        "batch": "Many answers at once: where drafting stops paying",
    }


def sweep(report: Report) -> Element:
    """Three tokens in a row: memory busy, arithmetic idle."""
    regime = report["plan"]["regime"]
    limits, token = regime["limits"], regime["times"][0]["plain"]
    drawing = new_drawing(190, titles()["sweep"])
    left, width = 110.0, 210.0
    lanes = [
        ("memory", 56.0, limits["memory_seconds"]),
        ("arithmetic", 100.0, limits["row_seconds"]),
    ]
    for series, (name, y, seconds) in enumerate(lanes):
        text_at(drawing, (left - 12, y + 20), name, "", "end")
        for number in range(3):
            x = left + number * width
            share = min(seconds / token, 1.0)
            svg.bar(drawing, (x, y), (width - 6, 30), "empty", f"token {number + 1}")
            size = (share * (width - 6), 30)
            kind = svg.series_class(series, "fill")
            svg.bar(drawing, (x, y), size, kind, f"{name}: {share:.0%} of the time")
    for number in range(3):
        text_at(drawing, (left + (number + 0.5) * width, 152), f"token {number + 1}", "", "middle")
    words = (
        f"{1000 * token:.0f} ms a token; filled: what reading all weights and what the "
        "multiplications take"
    )
    text_at(drawing, (left, 178), words, "small")
    return drawing


def rows(report: Report) -> Element:
    """Milliseconds of a pass against its rows, and what as many passes of one row would take."""
    found = report["calibrate"]
    points = [
        (float(count), 1000 * seconds)
        for count, seconds in zip(found["rows"], found["seconds"], strict=True)
    ]
    one = points[0][1]
    drawing = new_drawing(330, titles()["rows"])
    panel = Panel((60, 66), (480, 200), 0, points[-1][0], 1.15 * max(y for _, y in points))
    marks = {x: f"{x:g}" for x, _ in points if x in (1, 4, 8, 16, 24, 32)}
    panel.frame(drawing, marks, "tokens looked at in one pass", "milliseconds")
    panel.curve(drawing, points, 0)
    end = min(panel.y_high / one, panel.x_high)
    panel.curve(drawing, [(0, 0), (end, end * one)], 1, is_dashed=True, has_dots=False)
    legend(drawing, (560, 90), [("dots", "one pass for all"), ("dashed", "a pass for each")])
    return drawing


def laws(report: Report) -> Element:
    """A group of three bars for each of the likeliest tokens."""
    found = report["laws"]
    names = ["target", "rule", "naive"]
    top = 1.15 * max(found[name][index] for name in names for index in range(_num_shown(found)))
    drawing = new_drawing(330, titles()["laws"])
    panel = Panel((60, 66), (450, 200), 0, _num_shown(found), 100 * top)
    marks = {index + 0.5: found["tokens"][index] for index in range(_num_shown(found))}
    panel.frame(drawing, marks, f"next token after “{found['prompt']}”", "per cent")
    for index in range(_num_shown(found)):
        for series, name in enumerate(names):
            value = 100 * found[name][index]
            x, y = panel.place(index + 0.12 + 0.26 * series, value)
            height = panel.corner[1] + panel.size[1] - y
            kind = svg.series_class(series, "fill")
            svg.bar(drawing, (x, y), (18, height), kind, f"{name}: {value:.1f} %")
    shown = ["left: the model alone", "middle: the accept rule", "right: “keep it if it agrees”"]
    legend(drawing, (525, 90), [("bar", name) for name in shown])
    return drawing


def _num_shown(found: dict[str, Any]) -> int:
    return min(SHOWN_TOKENS, len(found["tokens"]))


def length(report: Report) -> Element:
    """Tokens per pass, then speed, both against K."""
    drawing = new_drawing(390, titles()["length"])
    marks = {float(k): str(k) for k in LENGTHS if k % 4 == 0}
    left = Panel((50, 66), (290, 200), 0, LENGTHS[-1], 10.0)
    left.frame(drawing, marks, "K, tokens drafted", "tokens a pass")
    for series, curve in enumerate(token_curves().values()):
        left.curve(drawing, curve, series, has_dots=False)
        _, y = left.place(0, curve[-1][1])
        text_at(drawing, (345, y + 4), f"{GUESSES[series]:.0%}", f"series{series}")
    curves = speedup_curves(report)
    most = max(y for curve in curves.values() for _, y in curve)
    right = Panel((420, 66), (320, 200), 0, LENGTHS[-1], max(1.25, 1.1 * most))
    right.frame(drawing, marks, "K, tokens drafted", "times as fast as plain")
    right.across(drawing, 1.0)
    kinds = ("dots", "line", "dashed")
    for series, (kind, curve) in enumerate(zip(kinds, curves.values(), strict=True)):
        right.curve(drawing, curve, series, kind == "dashed", kind == "dots")
    legend(drawing, (50, 336), list(zip(kinds, curves, strict=True)))
    return drawing


def batch(report: Report) -> Element:
    """Tokens a second of all answers together, with and without drafts, against their number."""
    plain, drafted = throughputs(report)
    drawing = new_drawing(330, titles()["batch"])
    most = max(y for _, y in [*plain, *drafted])
    panel = Panel((60, 66), (480, 200), 0, plain[-1][0] + 1, 1.15 * most)
    panel.frame(drawing, {x: f"{x:g}" for x, _ in plain}, "answers at once", "tokens a second")
    panel.curve(drawing, plain, 0)
    panel.curve(drawing, drafted, 1, is_dashed=True, has_dots=False)
    losing = first_losing_batch(report)
    if losing is not None:
        bottom, top = panel.place(losing, 0), panel.place(losing, panel.y_high)
        svg.line(drawing, bottom, top, "one")
        # Beside the line, where there is more room.
        x, anchor = (top[0] + 6, "start") if losing <= panel.x_high / 2 else (top[0] - 6, "end")
        text_at(drawing, (x, top[1] + 8), "drafting loses from here", "small", anchor)
    legend(drawing, (560, 90), [("dots", "drafting off"), ("dashed", "drafting on")])
    text_at(drawing, (560, 134), names_of_drafters(report)[0], "small")
    return drawing


def blocks(report: Report) -> dict[str, str]:
    """Every generated block of the document: the pictures with their words, and the origin."""
    told = captions(report)
    found = {
        f"picture-{name}": f"![{titles()[name]}: {told[name]}](pictures/{number}-{name}.svg)\n\n"
        f"*{told[name]}*"
        for number, name in enumerate(NAMES, 1)
    }
    found |= {name: told[name] for name in ("answer-draft", "answer-load")}
    words = (
        f"{origin(report)} Model {report['model']} ({report['quantization']}), "
        f"{report['engine']['kind']} engine ({report['engine']['isa']}, "
        f"{report['engine']['threads']} threads)."
    )
    if warning := busy_warning(report):
        words = f"**{warning}** {words}"
    return {**found, "origin": words}


def assert_share(report: Report) -> None:
    """A picture of idle arithmetic needs arithmetic that is idle."""
    assert 0 < idle_share(report) < 1, "the roofline does not fit the passes; measure again"


def write(document: Path = DOCUMENT, folder: Path = FOLDER) -> None:
    """Draws all pictures and writes the figures."""
    report = load_report(MEASUREMENT)
    assert_share(report)
    folder.mkdir(exist_ok=True)
    for name, content in pictures(report).items():
        (folder / name).write_text(content, encoding="utf-8")
    write_blocks(document, blocks(report))


if __name__ == "__main__":
    write()
