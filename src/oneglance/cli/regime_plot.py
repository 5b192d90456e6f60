"""A plot of passes by batch size with the roofline, as SVG that any browser opens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from oneglance.control.regime import BatchTimes, Roofline

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 60, 60
_STYLE = (
    "text{font:13px sans-serif;fill:currentColor}svg{color:#222;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#ddd;background:#1b1b1b}}"
)


def plot(title: str, times: Sequence[BatchTimes], num_draft_tokens: int, limits: Roofline) -> str:
    """Milliseconds of a pass against its rows, both on logarithmic axes.

    Args:
        title: above it.
        times: passes, at least one.
        num_draft_tokens: K of those that verify.
        limits: drawn as a line.
    """
    plain = [(float(each.batch), each.plain) for each in times]
    wide = [(each.batch * (num_draft_tokens + 1.0), each.verifying) for each in times]
    most = max(rows for rows, _ in wide)
    corners = [1.0, min(max(limits.ridge, 1.0), most), most]
    roof = [(rows, limits.seconds(rows)) for rows in corners]
    axes = _Axes.around([*plain, *wide, *roof])
    series = [
        ("#0072b2", "one row for each sequence", plain),
        ("#d55e00", f"{num_draft_tokens + 1} rows for each sequence", wide),
        ("#009e73", "roofline", roof),
    ]
    parts = [_text(_WIDTH / 2, 20, escape(title), "middle"), *axes.draw()]
    for index, (colour, label, points) in enumerate(series):
        parts.append(_line(colour, [axes.place(*point) for point in points], label != "roofline"))
        parts.append(
            f'<text x="{_LEFT + 215 * index}" y="44" style="fill:{colour}">{escape(label)}</text>'
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        f"<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )


class _Axes:
    """Logarithmic axes: rows to the right, seconds upwards."""

    def __init__(self, rows: tuple[float, float], seconds: tuple[float, float]) -> None:
        self._rows, self._seconds = rows, seconds

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]]) -> _Axes:
        rows = [x for x, _ in points]
        seconds = [y for _, y in points]
        return cls(
            (min(rows), max(2.0 * min(rows), max(rows))), (0.8 * min(seconds), 1.25 * max(seconds))
        )

    def place(self, rows: float, seconds: float) -> tuple[float, float]:
        def share(value: float, ends: tuple[float, float]) -> float:
            return math.log(value / ends[0]) / math.log(ends[1] / ends[0])

        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * share(rows, self._rows)
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share(seconds, self._seconds)

    def draw(self) -> list[str]:
        bottom = _HEIGHT - _BOTTOM
        parts = [
            f'<path d="M{_LEFT} {_TOP}V{bottom}H{_WIDTH - _RIGHT}" fill="none" '
            'stroke="currentColor"/>',
            _text(_WIDTH / 2, _HEIGHT - 15, "rows of a pass, of all sequences together", "middle"),
            f'<text transform="translate(18 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
            "milliseconds</text>",
        ]
        count = 1
        while count <= self._rows[1]:
            x, _ = self.place(count, self._seconds[0])
            parts.append(_text(x, bottom + 20, str(count), "middle"))
            count *= 2
        low, high = self._seconds
        for number in range(5):
            seconds = low * (high / low) ** (number / 4)
            _, y = self.place(self._rows[0], seconds)
            parts.append(_text(_LEFT - 8, y + 4, f"{1000 * seconds:.3g}", "end"))
        return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _line(colour: str, points: Sequence[tuple[float, float]], has_marks: bool) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = "" if has_marks else ' stroke-dasharray="6 4"'
    line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
    marks = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
    return "\n".join([line, *(marks if has_marks else [])])
