"""The tables of docs/drafters.md, made of what `make bench-drafters` wrote.

`python -m tests.docs.drafters` writes them; a test compares. A stage has a block of its own, with
the tables of every file docs/measurements/drafters-STAGE*.json.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.drafters_stages import STAGES
from oneglance.bench.grid import busy_warning
from oneglance.bench.tables import drafter_grids
from tests.docs.documents import ROOT, write_blocks
from tests.docs.performance import load_report, origin

DOCUMENT = ROOT / "docs" / "drafters.md"
MEASUREMENTS = ROOT / "docs" / "measurements"
NOTHING = "Nothing is recorded for this stage."


def blocks(folder: Path = MEASUREMENTS) -> dict[str, str]:
    """Every generated block of the document: its name, and what belongs there."""
    reports: dict[str, list[dict[str, Any]]] = {stage: [] for stage in STAGES}
    for path in sorted(folder.glob("drafters-*.json")):
        report = load_report(path)
        named = re.fullmatch(rf"drafters-{report['stage']}(-.*)?\.json", path.name)
        assert named, f"{path.name} holds stage {report['stage']}; name it drafters-STAGE*.json"
        reports[report["stage"]].append(report)
    return {
        f"drafters-{stage}": "\n\n".join(map(section, found)) or NOTHING
        for stage, found in reports.items()
    }


def section(report: dict[str, Any]) -> str:
    """Where the figures come from, and all tables of one report."""
    words = _origin(report)
    if warning := busy_warning(report):
        words = f"**{warning}** {words}"
    return "\n\n".join([words, *(grid.to_markdown() for grid in drafter_grids(report))])


def _origin(report: dict[str, Any]) -> str:
    engine, prompts = report["engine"], report["prompts"]
    before, after = (report[f"load_average_{when}"][0] for when in ("before", "after"))
    peer = ""
    if "llama_server" in report:
        commands = "; ".join(f"{name}: `{text}`" for name, text in report["llama_commands"].items())
        peer = f" llama.cpp {report['llama_server']}, {commands}."
    return (
        f"{origin(report)} Model {report['model']} ({report['quantization']}), {engine['kind']} "
        f"engine, instruction set {engine['isa']}, {engine['threads']} threads, weights "
        f"{engine['weights']}. Prompts of {prompts['file']} (SHA-256 `{prompts['sha256'][:16]}…`), "
        f"at most {report['max_tokens']} tokens an answer, {report['rounds']} "
        f"round{'s' if report['rounds'] > 1 else ''}; load average of the machine {before:.1f} "
        f"before and {after:.1f} after.{peer}"
    )


def main() -> None:
    """Puts the tables into the document."""
    write_blocks(DOCUMENT, blocks())


if __name__ == "__main__":
    main()
