"""The tables of a report on drafters, for the terminal and for documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.drafters_report import ALL
from benchmarks.drafters_subjects import PEER, PLAIN
from benchmarks.grids import Grid, show
from benchmarks.timing import Spread

SHOWN_DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)
NONE = "–"

Report = Mapping[str, Any]


def drafter_grids(report: Report) -> list[Grid]:
    """Every table of a report: speedups, work and depths for each temperature."""
    temperatures = list(dict.fromkeys(key.partition(" ")[0] for key in report["results"]))
    return [
        grid
        for temperature in temperatures
        for grid in (
            speedup_grid(report, temperature),
            peer_grid(report, temperature),
            work_grid(report, temperature),
            depth_grid(report, temperature),
        )
        if grid.rows
    ]


def speedup_grid(report: Report, temperature: str) -> Grid:
    """Times as fast as plain decoding, a row for each category."""
    categories = _categories(report, temperature)
    labels = [label for label in next(iter(categories.values())) if label != PLAIN]
    return Grid(
        f"Times as fast as plain decoding, {_law(report, temperature)}: median (quartiles) over "
        "the prompts",
        ("category", "prompts", "plain, tokens/s", *labels),
        tuple(
            (
                category,
                str(subjects[PLAIN]["prompts"]),
                f"{subjects[PLAIN]['tokens_per_second']:.1f}",
                *(show(Spread(*subjects[label]["speedup"]), ".2f") for label in labels),
            )
            for category, subjects in categories.items()
        ),
    )


def peer_grid(report: Report, temperature: str) -> Grid:
    """Times as fast as the peer's best setting in each category; no rows without a peer."""
    categories = _categories(report, temperature)
    labels = [label for label in next(iter(categories.values())) if not label.startswith(PEER)]
    rows = []
    for category, subjects in categories.items():
        if (peer := subjects[PLAIN]["best_peer"]) is not None:
            speed = f"{subjects[peer]['tokens_per_second']:.1f}"
            spreads = (Spread(*subjects[label]["speedup_over_peer"]) for label in labels)
            rows.append((category, peer, speed, *(show(spread, ".2f") for spread in spreads)))
    return Grid(
        f"Times as fast as the best setting of {PEER}, {_law(report, temperature)}: median "
        "(quartiles) over the prompts",
        ("category", "its best setting", "its tokens/s", *labels),
        tuple(rows),
    )


def _categories(report: Report, temperature: str) -> dict[str, Mapping[str, Any]]:
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
    return Grid(
        f"All categories together, {_law(report, temperature)}",
        (
            "",
            "tokens/s",
            "times plain",
            "all tokens together",
            "tokens/s with the prompt",
            "times plain",
            "mean accepted length",
            "accepted ÷ drafted",
            "drafter's share of the time",
        ),
        tuple(
            _work_row(label, summary)
            for label, summary in report["results"][f"{temperature} {ALL}"].items()
        ),
    )


def _work_row(label: str, summary: Mapping[str, Any]) -> tuple[str, ...]:
    length = summary["mean_accepted_length"]
    drafted, accepted = summary["drafted"], summary["accepted"]
    knows_time = length is not None and drafted > 0
    return (
        label,
        f"{summary['tokens_per_second']:.1f}",
        f"{summary['speedup'][0]:.2f}",
        f"{summary['pooled_speedup']:.2f}",
        f"{summary['tokens_per_second_with_prompt']:.1f}",
        f"{summary['speedup_with_prompt']:.2f}",
        NONE if length is None else f"{length:.2f}",
        f"{summary['acceptance_rate']:.0%} ({accepted}/{drafted})" if drafted else NONE,
        f"{summary['draft_share']:.1%}" if knows_time else NONE,
    )


def depth_grid(report: Report, temperature: str) -> Grid:
    """Of the passes that drafted at a depth, the share that accepted there."""
    summaries = report["results"][f"{temperature} {ALL}"]
    drafters = {label: summary["depths"] for label, summary in summaries.items()}
    deepest = max(map(len, drafters.values()))
    shown = [depth for depth in SHOWN_DEPTHS if depth <= deepest]
    return Grid(
        f"Acceptance by depth, {_law(report, temperature)}: share of the passes that drafted "
        "there (their number)",
        ("", *(str(depth) for depth in shown)),
        tuple(
            (label, *(_share(depths, depth) for depth in shown))
            for label, depths in drafters.items()
            if depths
        ),
    )


def _share(depths: list[list[int]], depth: int) -> str:
    if depth > len(depths):
        return NONE
    drafted, accepted = depths[depth - 1]
    return f"{accepted / drafted:.2f} ({drafted})"


def _law(report: Report, temperature: str) -> str:
    if temperature == "0":
        return "greedy"
    return f"T = {temperature}" + (", a seed for each prompt" if report["is_seeded"] else "")
