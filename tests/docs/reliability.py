"""The tables of docs/reliability.md, made of measurements of the server under load.

`python -m tests.docs.reliability` writes them; a test compares. `make reliability` wrote
docs/measurements/reliability.json, `make bench-serving` docs/measurements/serving-*.json.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.load.figures import serving_grids
from benchmarks.load.parts import PARTS
from oneglance.bench.grid import NONE, Grid, busy_warning
from tests.docs.documents import ROOT, write_blocks
from tests.docs.performance import load_report, origin

DOCUMENT = ROOT / "docs" / "reliability.md"
MEASUREMENTS = ROOT / "docs" / "measurements"
NOTHING = "Nothing has been measured yet."


def blocks(folder: Path = MEASUREMENTS) -> dict[str, str]:
    """Every generated block of the document: its name, and what belongs there."""
    path = folder / "reliability.json"
    load = [serving_section(load_report(each)) for each in sorted(folder.glob("serving-*.json"))]
    return {
        "reliability": reliability_section(load_report(path)) if path.exists() else NOTHING,
        "serving": "\n\n".join(load) or NOTHING,
    }


def reliability_section(report: dict[str, Any]) -> str:
    """A row for everything that was done, and where the figures come from."""
    missing = [part for part in PARTS if part not in report]
    assert not missing, f"{missing[0]} was left out; run `make reliability` without --parts"
    grid = Grid(
        f"{report['model']} ({report['quantization']}), {report['streams']} streams at once for "
        f"{report['minutes']:g} minutes",
        ("", "done", "wrong"),
        tuple((name, done, str(wrong)) for name, done, wrong in reliability_rows(report)),
    )
    settings = ", ".join(f"{name} = {value}" for name, value in report["server"].items())
    return (
        f"{grid.to_markdown()}\n\n{origin(report)} {report['questions']} questions, seed "
        f"{report['seed']}; server with {settings}; Schemathesis "
        f"{report['schemathesis']['version']}."
    )


def reliability_rows(report: dict[str, Any]) -> list[tuple[str, str, int]]:
    """What was done, how often or with what result, and how much of it was wrong."""
    storm, wrong = report["storm"], report["num_problems"]
    rows = [
        (f"clients: {kind}", str(counts["count"]), counts["wrong"])
        for kind, counts in storm["outcomes"].items()
    ]
    before, after = report["pages"]["before"], report["pages"]["after"]
    restart, fuzz = report["restart"], report["fuzz"]
    statuses: Counter[str] = Counter()
    for name, count in fuzz["statuses"].items():
        statuses[name.rpartition(" ")[2]] += count
    answers = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
    return [
        *rows,
        ("tokens delivered and compared", str(storm["tokens"]), wrong["storm"]),
        ("pages in use, before → after", f"{before['pages']} → {after['pages']}", wrong["pages"]),
        ("growth of memory after the warm-up", _growth(report["memory"]), wrong["memory"]),
        ("answers that gave way and were begun again", f"{storm['preemptions']:.0f}", 0),
        (
            "restart: streams in flight that came to their end",
            f"{restart['finished']} of {restart['streams']}",
            wrong["restart"],
        ),
        ("restart: new requests refused with 503", str(restart["refused"]), 0),
        (f"bodies ({answers})", str(fuzz["bodies"]), wrong["fuzz"]),
        (
            f"requests of Schemathesis to {report['schemathesis']['operations']} operations",
            str(report["schemathesis"]["cases"]),
            wrong["schemathesis"],
        ),
    ]


def _growth(memory: dict[str, Any]) -> str:
    return f"{memory['growth']:.2%}" if memory["is_judged"] else NONE


def serving_section(report: dict[str, Any]) -> str:
    """The tables of one model under load, and where the figures come from."""
    words = [origin(report), _conditions(report)]
    if warning := busy_warning(report):
        words.insert(0, f"**{warning}**")
    return "\n\n".join([" ".join(words), *(grid.to_markdown() for grid in serving_grids(report))])


def _conditions(report: dict[str, Any]) -> str:
    prompts, results = report["prompts"], report["results"].values()
    shares = [
        summary["client_share"]
        for result in results
        for summary in result.values()
        if summary["client_share"] is not None
    ]
    before, after = (report[f"load_average_{when}"][0] for when in ("before", "after"))
    commands = "; ".join(f"{name}: `{text}`" for name, text in report["llama_commands"].items())
    peer = f" llama.cpp {report['llama_server']}, {commands}." if commands else ""
    client = f"; asking took at most {max(shares):.1%} of the processor time" if shares else ""
    return (
        f"Prompts of {prompts['file']} (SHA-256 `{prompts['sha256'][:16]}…`, {prompts['count']} of "
        f"them), at most {report['max_tokens']} tokens an answer, {report['rounds']} rounds of at "
        f"least {report['least_requests']} requests{client}; load average of the machine "
        f"{before:.1f} before and {after:.1f} after.{peer}"
    )


def main() -> None:
    """Puts the tables into the document."""
    write_blocks(DOCUMENT, blocks())


if __name__ == "__main__":
    main()
