"""The tables of docs/bench.md that compare `auto` with fixed settings.

`python -m tests.docs.control` writes them; a test compares. `make bench-control` wrote
docs/measurements/control.json, and with other models and prompts the files beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneglance.bench.figures import ALL
from oneglance.bench.grid import Grid, busy_warning
from oneglance.bench.subject import PLAIN
from tests.docs.documents import ROOT, write_blocks
from tests.docs.performance import load_report, origin

DOCUMENT = ROOT / "docs" / "bench.md"
MEASUREMENTS = ROOT / "docs" / "measurements"
NAMES = ("control", "control-spec-bench", "control-pair")
AUTO = "auto"


def blocks(folder: Path = MEASUREMENTS) -> dict[str, str]:
    """Every generated block of the document: its name, and what belongs there."""
    paths = {name: folder / f"{name}.json" for name in NAMES}
    return {
        name: section(load_report(path)) if path.exists() else "Nothing was measured yet."
        for name, path in paths.items()
    }


def section(report: dict[str, Any]) -> str:
    """A row for each category, and where the figures come from."""
    fixed = [label for label, subject in report["subjects"].items() if subject["k"] != "auto"]
    rows = []
    for name, summaries in report["results"].items():
        speeds = {label: summary["speedup"][0] for label, summary in summaries.items()}
        best = max(fixed, key=lambda label: speeds[label])
        rows.append(
            (
                name.split(" ", 1)[1],
                f"{summaries[PLAIN]['tokens_per_second']:.1f}",
                best,
                f"{speeds[best]:.2f}",
                f"{speeds[AUTO]:.2f}",
                f"{speeds[AUTO] / max(speeds[best], 1.0):.2f}",
            )
        )
    assert rows[-1][0] == ALL
    grid = Grid(
        f"{report['model']} ({report['quantization']}), greedy, times as fast as plain decoding",
        (
            "category",
            "plain, tokens/s",
            "best fixed setting",
            "its speed",
            "auto",
            "auto ÷ the better of it and plain",
        ),
        tuple(rows),
    )
    warning = busy_warning(report)
    words = [
        *([f"**{warning}**"] if warning else []),
        origin(report),
        f"At most {report['max_tokens']} tokens an answer, medians of {report['rounds']} rounds.",
    ]
    return f"{grid.to_markdown()}\n\n{' '.join(words)}"


if __name__ == "__main__":
    write_blocks(DOCUMENT, blocks())
