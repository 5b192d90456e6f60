"""The tables of docs/performance.md, made of what `make bench-engine` and `make perplexity` wrote.

`python -m tests.docs.performance` writes them; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.grids import all_grids
from oneglance.bench.grid import Grid, busy_warning
from tests.docs.documents import ROOT, read, write_blocks

DOCUMENT = ROOT / "docs" / "performance.md"
MEASUREMENTS = ROOT / "docs" / "measurements"


def blocks() -> dict[str, str]:
    """Every generated block of the document: its name, and what belongs there."""
    models = [load_report(path) for path in sorted(MEASUREMENTS.glob("engine-*.json"))]
    return {
        "engine": "\n\n".join(engine_section(report) for report in models),
        "overhead": overhead_block(load_report(MEASUREMENTS / "decode-overhead.json")),
        "perplexity": perplexity_block(load_report(MEASUREMENTS / "perplexity.json")),
    }


def engine_section(report: dict[str, Any]) -> str:
    """A section with all tables of one model, and where the figures come from."""
    origin = _engine_origin(report)
    if warning := busy_warning(report):
        origin = f"**{warning}** {origin}"
    tables = (grid.to_markdown() for grid in all_grids(report))
    return "\n\n".join([f"### {report['model']}, {report['cpu']}", origin, *tables])


def _engine_origin(report: dict[str, Any]) -> str:
    before, after = (f"{report[f'load_average_{when}'][0]:.1f}" for when in ("before", "after"))
    return (
        f"{origin(report)} Model {report['model']} ({report['quantization']}), instruction set "
        f"{report['isa']}, {report['threads']} threads, {report['rounds']} rounds; load average of "
        f"the machine {before} before and {after} after."
    )


def overhead_block(report: dict[str, Any]) -> str:
    """What a pass costs outside the forward, a row for each kind of request."""
    phases = ("forward", "propose", "rows", "accept", "loop", "pass")
    grid = Grid(
        f"Milliseconds of a pass by phase, {report['drafted']} drafted tokens",
        ("request", *phases, "outside the forward"),
        tuple(
            (name, *(f"{case[phase]:.2f}" for phase in phases), f"{case['share_outside']:.1%}")
            for name, case in report["cases"].items()
        ),
    )
    words = origin(report)
    if warning := busy_warning(report):
        words = f"**{warning}** {words}"
    engine = report["engine"]
    return (
        f"{grid.to_markdown()}\n\n{words} Model {report['model']}, instruction set "
        f"{engine['isa']}, {engine['threads']} threads; medians."
    )


def perplexity_block(report: dict[str, Any]) -> str:
    """The comparison with the reference engine, a row for each subject."""
    grid = Grid(
        f"{report['model']} ({report['quantization']}) on {report['text']}",
        ("weights", "perplexity", "reference", "ratio", "mean KL, nats", "same most likely token"),
        tuple(_perplexity_row(name, score) for name, score in report["subjects"].items()),
    )
    first = next(iter(report["subjects"].values()))
    size = (
        f"{first['num_tokens']} predicted tokens in {report['windows']} windows of "
        f"{report['window']}; SHA-256 of the text `{report['text_sha256']}`."
    )
    return f"{grid.to_markdown()}\n\n{size} {origin(report)}"


def _perplexity_row(name: str, score: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{score['perplexity']:.4f}",
        f"{score['reference_perplexity']:.4f}",
        f"{score['ratio']:.5f} ± {score['ratio_error']:.5f}",
        f"{score['mean_kl']:.5f}",
        f"{score['agreement']:.2%}",
    )


def origin(report: dict[str, Any]) -> str:
    """Command, day, machine and versions of a measurement."""
    revision = (report["git_revision"] or "not from a checkout")[:12]
    changes = " with changes" if report["git_is_modified"] else ""
    return (
        f"`{report['command']}` on {report['date']}: {report['cpu']}, {report['cores']} cores, "
        f"{report['system']}, Python {report['python']}, numpy {report['numpy']}, oneglance "
        f"{report['oneglance']} ({revision}{changes})."
    )


def load_report(path: Path) -> dict[str, Any]:
    """A measurement as its command wrote it."""
    report: dict[str, Any] = json.loads(read(path))
    return report


def main() -> None:
    """Puts the tables into the document."""
    write_blocks(DOCUMENT, blocks())


if __name__ == "__main__":
    main()
