"""The README's table of both models, made of what `make bench` wrote.

`python -m tests.docs.bench` writes it; a test compares. There is a table for every file
docs/measurements/bench-*.json; without any, the README has no such block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneglance.bench.figures import ALL
from oneglance.bench.grid import NONE, Grid, busy_warning, show
from oneglance.bench.subject import PLAIN
from oneglance.bench.tables import law_of
from oneglance.bench.timing import Spread
from tests.docs.documents import README, ROOT, between, markers, read, write_blocks
from tests.docs.figures import BLOCK as DEMO_BLOCK
from tests.docs.performance import load_report, origin

MEASUREMENTS = ROOT / "docs" / "measurements"
BLOCK = "bench"


def block(folder: Path = MEASUREMENTS) -> str | None:
    """What belongs into the README; None where nothing was measured."""
    reports = [load_report(path) for path in sorted(folder.glob("bench-*.json"))]
    return "\n\n".join(map(section, reports)) or None


def shown(text: str) -> str | None:
    """What stands in the README; None where it has no such block."""
    begin, _ = markers(BLOCK)
    return between(text, BLOCK) if begin in text else None


def section(report: dict[str, Any]) -> str:
    """One model's greedy answers: a row for each subject, and where the figures come from."""
    summaries = report["results"][f"0 {ALL}"]
    prompts = summaries[PLAIN]["prompts"]
    grid = Grid(
        f"{report['model']} ({report['quantization']}), {law_of(report, '0')}, all {prompts} "
        "prompts together",
        ("", "tokens/s", "times as fast", "mean accepted length", "acceptance rate"),
        tuple(_row(label, summary) for label, summary in summaries.items()),
    )
    engine = report["engine"]
    warning = busy_warning(report)
    words = [
        *([f"**{warning}**"] if warning else []),
        origin(report),
        f"{engine['kind']} engine ({engine['isa']}, {engine['threads']} threads); prompts of "
        f"{report['prompts']['file']}, at most {report['max_tokens']} tokens an answer, "
        f"{report['rounds']} rounds.",
    ]
    if "llama_server" in report:
        words.append(f"llama.cpp {report['llama_server']}.")
    return f"{grid.to_markdown()}\n\n{' '.join(words)}"


def _row(label: str, summary: dict[str, Any]) -> tuple[str, ...]:
    length, drafted = summary["mean_accepted_length"], summary["drafted"]
    rate = f"{summary['acceptance_rate']:.0%} ({summary['accepted']}/{drafted})"
    return (
        label,
        f"{summary['tokens_per_second']:.1f}",
        show(Spread(*summary["speedup"]), ".2f"),
        NONE if length is None else f"{length:.2f}",
        rate if drafted else NONE,
    )


def write(readme: Path, folder: Path) -> None:
    """Puts the tables into the README, behind those of the demo where it has none yet."""
    content = block(folder)
    assert content is not None, "nothing is measured; run `make bench`"
    text = read(readme)
    if shown(text) is None:
        begin, end = markers(BLOCK)
        _, after_demo = markers(DEMO_BLOCK)
        assert after_demo in text, "there is no place for the tables"
        text = text.replace(after_demo, f"{after_demo}\n\n{begin}\n{end}")
        readme.write_text(text, encoding="utf-8")
    write_blocks(readme, {BLOCK: content})


if __name__ == "__main__":
    write(README, MEASUREMENTS)
