"""The figures that follow from the runs of the drafters' benchmark.

A speedup is a subject's tokens per second over those of plain decoding in the same group. For a
prompt it is the median over the rounds, for a category the median over its prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Any

from benchmarks.drafters_subjects import PEER, PLAIN
from benchmarks.drafters_work import Run
from benchmarks.timing import Spread

ALL = "all"
"""The category of every prompt."""

Groups = Sequence[Mapping[str, Run]]


def results(groups: Groups) -> dict[str, dict[str, dict[str, Any]]]:
    """A summary of each subject, by "TEMPERATURE CATEGORY"; the category "all" comes last.

    Args:
        groups: the runs of each group, by subject.
    """
    found = {}
    for temperature in _distinct(_first(group).temperature for group in groups):
        warm = [group for group in groups if _first(group).temperature == temperature]
        categories = _distinct(_first(group).category for group in warm)
        for category in [*categories, ALL]:
            within = [group for group in warm if category in (_first(group).category, ALL)]
            peer = best_peer(within)
            found[f"{temperature:g} {category}"] = {
                label: summary(within, label, peer) for label in within[0]
            }
    return found


def best_peer(groups: Groups) -> str | None:
    """Of the other program's settings, that with the most tokens per second; None without one."""
    peers = [label for label in groups[0] if label.startswith(PEER)]
    return max(peers, key=lambda label: median_speed(groups, label), default=None)


def samples(groups: Groups) -> dict[str, dict[str, list[list[float]]]]:
    """Of each subject and round: tokens, seconds of decoding, seconds of the prompt."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for group in groups:
        for label, run in group.items():
            sample = [run.tokens, round(run.decode_seconds, 4), round(run.prefill_seconds, 4)]
            key = f"{run.temperature:g} {run.prompt}"
            found.setdefault(key, {}).setdefault(label, []).append(sample)
    return found


def summary(groups: Groups, label: str, peer: str | None = None) -> dict[str, Any]:
    """The figures of one subject over some groups, and against the peer's best setting.

    `speedup` is median and quartiles over the prompts; `pooled_speedup` that of all their tokens
    together; `draft_share` the drafter's part of the seconds of decoding; `depths` has for each
    depth the passes that drafted there and those that accepted there.
    """
    runs = [group[label] for group in groups]
    passes = [run.passes for run in runs if run.passes is not None]
    drafted, accepted = sum(run.drafted for run in runs), sum(run.accepted for run in runs)
    delivered = sum(run.tokens for run in runs)
    decode_seconds = sum(run.decode_seconds for run in runs)
    return {
        "prompts": len({run.prompt for run in runs}),
        "tokens_per_second": median_speed(groups, label),
        "tokens_per_second_with_prompt": median(
            by_prompt(groups, lambda group: group[label].speed_with_prompt)
        ),
        "speedup": speedup(groups, label, PLAIN),
        "best_peer": peer,
        "speedup_over_peer": None if peer is None else speedup(groups, label, peer),
        "speedup_with_prompt": median(
            by_prompt(
                groups,
                lambda group: group[label].speed_with_prompt / group[PLAIN].speed_with_prompt,
            )
        ),
        "pooled_speedup": pooled_speed(groups, label) / pooled_speed(groups, PLAIN),
        "passes": sum(passes) if passes else None,
        "drafted": drafted,
        "accepted": accepted,
        "delivered": delivered,
        "acceptance_rate": accepted / drafted if drafted else 0.0,
        "mean_accepted_length": delivered / sum(passes) if passes else None,
        "draft_share": sum(run.draft_seconds for run in runs) / decode_seconds,
        "depths": add_depths([run.depths for run in runs]),
    }


def speedup(groups: Groups, label: str, base: str) -> list[float]:
    """Times as fast as another subject: median and quartiles over the prompts."""
    ratios = by_prompt(groups, lambda group: group[label].speed / group[base].speed)
    spread = Spread.of(ratios)
    return [spread.middle, spread.low, spread.high]


def median_speed(groups: Groups, label: str) -> float:
    """Tokens per second of decoding, the median over the prompts."""
    return median(by_prompt(groups, lambda group: group[label].speed))


def by_prompt(groups: Groups, figure: Callable[[Mapping[str, Run]], float]) -> list[float]:
    """A figure of each prompt, the median over its rounds."""
    found: dict[str, list[float]] = {}
    for group in groups:
        found.setdefault(_first(group).prompt, []).append(figure(group))
    return [median(rounds) for rounds in found.values()]


def pooled_speed(groups: Groups, label: str) -> float:
    """Tokens per second of decoding, of all runs together."""
    runs = [group[label] for group in groups]
    return sum(run.tokens for run in runs) / sum(run.decode_seconds for run in runs)


def add_depths(histograms: Sequence[Sequence[tuple[int, int]]]) -> list[list[int]]:
    """The counts of several answers together, depth by depth."""
    columns = zip_longest(*histograms, fillvalue=(0, 0))
    return [[sum(counts) for counts in zip(*column, strict=True)] for column in columns]


def _first(group: Mapping[str, Run]) -> Run:
    return group[PLAIN]


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
