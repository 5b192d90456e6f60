"""The tables of a report, for the terminal, for documents and for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneglance.bench.figures import ALL
from oneglance.bench.grid import NONE, Grid, show
from oneglance.bench.subject import PEER, PLAIN
from oneglance.bench.timing import Spread

SHOWN_DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)
PHASES = {
    "prompt": "reading the prompt",
    "draft": "drafter",
    "verify": "passes of the target",
    "accept": "accepting",
    "rest": "the rest",
}
"""Parts of an answer's seconds, and what they are called."""

Report = Mapping[str, Any]


def bench_grids(report: Report) -> list[Grid]:
    """Every table of a report of `oneglance bench`, in the order of reading."""
    return [
        grid
        for temperature in temperatures_of(report)
        for grid in (
            speedup_grid(report, temperature),
            subject_grid(report, temperature),
            depth_grid(report, temperature),
        )
        if grid.rows
    ]


def drafter_grids(report: Report) -> list[Grid]:
    """The tables of a report for docs/drafters.md: speedups, work and depths."""
    return [
        grid
        for temperature in temperatures_of(report)
        for grid in (
            speedup_grid(report, temperature),
            peer_grid(report, temperature),
            work_grid(report, temperature),
            depth_grid(report, temperature),
        )
        if grid.rows
    ]


def temperatures_of(report: Report) -> list[str]:
    """As they are written in the keys of the results."""
    return list(dict.fromkeys(key.partition(" ")[0] for key in report["results"]))


def speedup_grid(report: Report, temperature: str) -> Grid:
    """Times as fast as the first subject, a row for each category.

    Where a program does not tell how long it read the prompt, whole answers are compared.
    """
    categories = categories_of(report, temperature)
    base, *labels = next(iter(categories.values()))
    key = speedup_key(report, temperature)
    is_whole = key == "answer_speedup"
    speed = "tokens_per_second_with_prompt" if is_whole else "tokens_per_second"
    named = "plain decoding" if base == PLAIN else base
    whole = ", the reading of the prompt included" if is_whole else ""
    return Grid(
        f"Times as fast as {named}, {law_of(report, temperature)}{whole}: median (quartiles) over "
        "the prompts",
        ("category", "prompts", f"{base}, tokens/s", *labels),
        tuple(
            (
                category,
                str(subjects[base]["prompts"]),
                f"{subjects[base][speed]:.1f}",
                *(show(Spread(*subjects[label][key]), ".2f") for label in labels),
            )
            for category, subjects in categories.items()
        ),
    )


def speedup_key(report: Report, temperature: str) -> str:
    """Which speedup every subject has: that of decoding, or else that of whole answers."""
    summaries = report["results"][f"{temperature} {ALL}"].values()
    is_told = all(summary["speedup"] is not None for summary in summaries)
    return "speedup" if is_told else "answer_speedup"


def peer_grid(report: Report, temperature: str) -> Grid:
    """Times as fast as the peer's best setting in each category; no rows without a peer."""
    categories = categories_of(report, temperature)
    labels = [label for label in next(iter(categories.values())) if not label.startswith(PEER)]
    rows = []
    for category, subjects in categories.items():
        if (peer := subjects[labels[0]]["best_peer"]) is not None:
            speed = f"{subjects[peer]['tokens_per_second']:.1f}"
            spreads = (Spread(*subjects[label]["speedup_over_peer"]) for label in labels)
            rows.append((category, peer, speed, *(show(spread, ".2f") for spread in spreads)))
    return Grid(
        f"Times as fast as the best setting of {PEER}, {law_of(report, temperature)}: median "
        "(quartiles) over the prompts",
        ("category", "its best setting", "its tokens/s", *labels),
        tuple(rows),
    )


def categories_of(report: Report, temperature: str) -> dict[str, Mapping[str, Any]]:
    """The summaries of a temperature by category; where there is one, "all" would repeat it."""
    categories = {
        key.partition(" ")[2]: subjects
        for key, subjects in report["results"].items()
        if key.partition(" ")[0] == temperature
    }
    if len(categories) == 2:
        del categories[ALL]
    return categories


def work_grid(report: Report, temperature: str) -> Grid:
    """What each subject did, all categories together."""
    summaries = report["results"][f"{temperature} {ALL}"]
    base = next(iter(summaries))
    return Grid(
        f"All categories together, {law_of(report, temperature)}",
        (
            "",
            "tokens/s",
            f"times {base}",
            "all tokens together",
            "tokens/s with the prompt",
            f"times {base}",
            "mean accepted length",
            "accepted ÷ drafted",
            "drafter's share of the time",
        ),
        tuple(_work_row(label, summary) for label, summary in summaries.items()),
    )


def _work_row(label: str, summary: Mapping[str, Any]) -> tuple[str, ...]:
    length = summary["mean_accepted_length"]
    knows_time = length is not None and summary["drafted"] > 0
    speedup = summary["speedup"]
    return (
        label,
        _text(summary["tokens_per_second"], ".1f"),
        _text(speedup and speedup[0], ".2f"),
        _text(summary["pooled_speedup"], ".2f"),
        f"{summary['tokens_per_second_with_prompt']:.1f}",
        f"{summary['speedup_with_prompt']:.2f}",
        _text(length, ".2f"),
        _acceptance(summary),
        _text(summary["draft_share"] if knows_time else None, ".1%"),
    )


def subject_grid(report: Report, temperature: str) -> Grid:
    """Every figure of every subject, all categories together: a row for each figure."""
    summaries = report["results"][f"{temperature} {ALL}"]
    base = next(iter(summaries))
    columns = [_subject_column(summary) for summary in summaries.values()]
    names = (
        "tokens/s",
        f"times {base}",
        f"times {base}, all tokens together",
        "tokens/s with the prompt",
        f"times {base} with the prompt",
        "ms to the first token",
        "mean accepted length",
        "accepted ÷ drafted",
        *(f"time: {name}" for name in PHASES.values()),
        f"answers equal to {base}",
    )
    rows = ((name, *cells) for name, *cells in zip(names, *columns, strict=True))
    return Grid(
        f"All categories together, {law_of(report, temperature)}",
        ("", *summaries),
        tuple(row for row in rows if set(row[1:]) != {NONE}),
    )


def _subject_column(summary: Mapping[str, Any]) -> tuple[str, ...]:
    speedup, first, shares = (
        summary[name] for name in ("speedup", "seconds_to_first_token", "shares")
    )
    return (
        _text(summary["tokens_per_second"], ".1f"),
        _text(speedup and speedup[0], ".2f"),
        _text(summary["pooled_speedup"], ".2f"),
        f"{summary['tokens_per_second_with_prompt']:.1f}",
        f"{summary['answer_speedup'][0]:.2f}",
        _text(first and 1000 * first, ".0f"),
        _text(summary["mean_accepted_length"], ".2f"),
        _acceptance(summary),
        *(_text(shares and shares[phase], ".1%") for phase in PHASES),
        f"{summary['identical']}/{summary['compared']}" if summary["compared"] else NONE,
    )


def _acceptance(summary: Mapping[str, Any]) -> str:
    drafted, accepted = summary["drafted"], summary["accepted"]
    return f"{summary['acceptance_rate']:.0%} ({accepted}/{drafted})" if drafted else NONE


def depth_grid(report: Report, temperature: str) -> Grid:
    """Of the passes that drafted at a depth, the share that accepted there."""
    summaries = report["results"][f"{temperature} {ALL}"]
    drafters = {label: summary["depths"] for label, summary in summaries.items()}
    deepest = max(map(len, drafters.values()))
    shown = [depth for depth in SHOWN_DEPTHS if depth <= deepest]
    return Grid(
        f"Acceptance by depth, {law_of(report, temperature)}: share of the passes that drafted "
        "there (their number)",
        ("", *(str(depth) for depth in shown)),
        tuple(
            (label, *(_share(depths, depth) for depth in shown))
            for label, depths in drafters.items()
            if depths
        ),
    )


def law_of(report: Report, temperature: str) -> str:
    """How answers were sampled, in words."""
    if temperature == "0":
        return "greedy"
    return f"T = {temperature}" + (", a seed for each prompt" if report["is_seeded"] else "")


def _share(depths: list[list[int]], depth: int) -> str:
    if depth > len(depths):
        return NONE
    drafted, accepted = depths[depth - 1]
    return f"{accepted / drafted:.2f} ({drafted})"


def _text(value: float | None, form: str) -> str:
    return NONE if value is None else f"{value:{form}}"
