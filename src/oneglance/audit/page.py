"""A report as one HTML page that opens from disk: no scripts, no fonts, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from oneglance.audit.verdict import STATUSES, Report, Verdict

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
.facts, .note { color: color-mix(in srgb, currentColor 65%, transparent); font-size: .9rem; }
.count { display: inline-block; margin: 1rem .6rem 1rem 0; padding: .15rem .7rem;
  border: 1px solid var(--line); border-radius: 1rem; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; }
th, td { padding: .4rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.status { white-space: nowrap; font-weight: 600; }
.fault { color: #c62828; } .pass { color: #2e7d32; } .unclear, .near-tie { color: #b26a00; }
.not-offered { color: #777; }
@media (prefers-color-scheme: dark) {
  .fault { color: #ff7b72; } .pass { color: #7ee787; } .unclear, .near-tie { color: #e3b341; } }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6rem;
  font-size: .8rem; }
@media print { body { margin: 0; max-width: none; } details { break-inside: avoid; } }
"""

MEANINGS = {
    "fault": "the property does not hold",
    "unclear": "what came back does not suffice to tell",
    "near-tie": "answers differ only where rounding decides between two equally likely tokens",
    "not offered": "refused, or without what the check needs",
    "pass": "nothing to object to",
}


def render_page(report: Report) -> str:
    """The page, with every verdict and its evidence."""
    counts = "".join(
        f'<span class="count {_class(status)}" title="{escape(MEANINGS[status])}">'
        f"{report.count(status)} {status}</span>"
        for status in STATUSES
        if report.count(status)
    )
    rows = "\n".join(_row(verdict) for verdict in report.verdicts)
    meanings = "; ".join(f"<b>{name}</b>: {escape(text)}" for name, text in MEANINGS.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(report.title)}</h1>
<p class="facts">{_facts(report.facts)}</p>
<div>{counts}</div>
<table>
<thead><tr><th>of</th><th>property</th><th>verdict</th><th>what was found</th><th>looked at</th>
<th title="corrected for the number of tests (Holm)">p</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
<p class="note">{meanings}.{_level(report)}</p>
</body>
</html>
"""


def _level(report: Report) -> str:
    """What the p-values mean; nothing where there are none."""
    if all(verdict.adjusted_p is None for verdict in report.verdicts):
        return ""
    return (
        " The p-values are corrected for the number of tests; below "
        f"{report.alpha:g} a verdict is a fault, so that a right system is accused in "
        f"{report.alpha:.1%} of audits at most."
    )


def _row(verdict: Verdict) -> str:
    found = escape(verdict.detail)
    if verdict.power:
        found += f'<div class="note">The test {escape(verdict.power)}.</div>'
    if verdict.evidence:
        data = json.dumps(
            [dict(item) for item in verdict.evidence], indent=2, ensure_ascii=False, default=str
        )
        found += f"<details><summary>evidence</summary><pre>{escape(data)}</pre></details>"
    p_text = "" if verdict.adjusted_p is None else f"{verdict.adjusted_p:.3g}"
    return (
        f"<tr><td>{escape(verdict.subject)}</td><td>{escape(verdict.check)}</td>"
        f'<td class="status {_class(verdict.status)}">{verdict.status}</td><td>{found}</td>'
        f'<td class="number">{verdict.sample_size} {escape(verdict.unit)}</td>'
        f'<td class="number">{p_text}</td></tr>'
    )


def _class(status: str) -> str:
    return status.replace(" ", "-")


def _facts(facts: Mapping[str, Any]) -> str:
    parts = [
        f"{escape(str(name).replace('_', ' '))}: {escape(str(value))}"
        for name, value in facts.items()
        if value is not None
    ]
    return " · ".join(parts)
