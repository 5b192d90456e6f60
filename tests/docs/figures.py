"""The table of measurements in the README, made of the file that `oneglance demo --json` wrote.

`python -m tests.docs.figures` writes it; a test compares.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from tests.docs.documents import README, ROOT, between, markers, read

MEASUREMENT = ROOT / "docs" / "measurements" / "demo.json"
BLOCK = "figures"

HEADINGS = (
    "prompt",
    "tokens",
    "passes",
    "mean accepted length",
    "acceptance rate",
    "ms per pass",
    "tokens/s",
    "times as fast",
)


def figures(report: dict[str, Any]) -> str:
    """Markdown: a table with a row for each prompt, then where the figures come from."""
    rows = [HEADINGS, ("---",) + ("--:",) * (len(HEADINGS) - 1)]
    rows += [_row(answer) for answer in report["answers"]]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\n{_origin(report)}"


def _row(answer: dict[str, Any]) -> tuple[str, ...]:
    assert answer["is_identical"], "an answer changed with drafting; there is nothing to publish"
    plain, speculative = answer["plain"], answer["speculative"]
    first = speculative[0]
    return (
        answer["prompt"].splitlines()[0],
        str(first["delivered"]),
        f"{plain[0]['passes']} → {first['passes']}",
        f"{plain[0]['mean_accepted_length']:.2f} → {first['mean_accepted_length']:.2f}",
        f"{first['acceptance_rate']:.0%} ({first['accepted']}/{first['drafted']})",
        f"{_pass_ms(plain):.0f} → {_pass_ms(speculative):.0f}",
        f"{_speed(plain):.1f} → {_speed(speculative):.1f}",
        f"{answer['speedup']:.2f}",
    )


def _pass_ms(runs: list[dict[str, Any]]) -> float:
    return float(1000 * median(run["seconds"]["verify"] / run["passes"] for run in runs))


def _speed(runs: list[dict[str, Any]]) -> float:
    return float(median(run["tokens_per_second"] for run in runs))


def _origin(report: dict[str, Any]) -> str:
    revision = report["git_revision"] or "not from a checkout"
    if report["git_is_modified"]:
        revision = f"{revision[:12]} with changes"
    num_rounds = len(report["answers"][0]["plain"])
    return (
        f"`{report['command']}` on {report['date']}: {report['cpu']}, {report['cores']} cores, "
        f"{_engine(report['engine'])}, {report['system']}, Python {report['python']}, "
        f"numpy {report['numpy']}, oneglance {report['oneglance']} ({revision[:25]}). Model "
        f"{report['model']}, greedy, -k {report['k']}; median of {num_rounds} rounds."
    )


def _engine(engine: dict[str, Any]) -> str:
    return f"{engine['kind']} engine ({engine['isa']}, {engine['threads']} threads)"


def main() -> None:
    """Puts the figures into the README."""
    text = read(README)
    begin, end = markers(BLOCK)
    old = between(text, BLOCK)
    before, after = text[: text.index(begin)], text[text.index(end) + len(end) :]
    new = figures(json.loads(read(MEASUREMENT)))
    README.write_text(f"{before}{begin}\n{new}\n{end}{after}", encoding="utf-8")
    print("README.md is as measured." if new == old else "README.md has new figures.")


if __name__ == "__main__":
    main()
