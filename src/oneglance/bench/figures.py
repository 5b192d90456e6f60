"""The figures that follow from the runs of a benchmark: the one definition of each.

A speedup is a subject's tokens per second over those of the first subject, most often plain
decoding, in the same group. For a prompt it is the median over the rounds, for a category the
median over its prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Any, TypeVar

from oneglance.bench.run import Run
from oneglance.bench.subject import PEER
from oneglance.bench.timing import Spread

Value = TypeVar("Value")

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
            sample = [
                run.tokens,
                round(run.decode_seconds, 4),
                round(run.seconds - run.decode_seconds, 4),
            ]
            key = f"{run.temperature:g} {run.prompt}"
            found.setdefault(key, {}).setdefault(label, []).append(sample)
    return found


def summary(groups: Groups, label: str, peer: str | None = None) -> dict[str, Any]:
    """The figures of one subject over some groups, and against the peer's best setting.

    `speedup` and `answer_speedup` are median and quartiles over the prompts, without and with the
    reading of the prompt; `pooled_speedup` is that of all their tokens together; `shares` are the
    parts of the seconds of all answers, `draft_share` the drafter's part of the seconds of
    decoding; `depths` has for each depth the passes that drafted there and those that accepted
    there; of `compared` answers `identical` were those of the first subject. A figure is None
    where a program does not tell what it needs.
    """
    runs = [group[label] for group in groups]
    base = base_of(groups)
    ratios = answer_speedup(groups, label, base)
    firsts = [run.first_token_seconds for run in runs]
    compared = [run.is_identical for run in runs if run.is_identical is not None]
    return {
        "prompts": len({run.prompt for run in runs}),
        **_decoding_figures(groups, label, base, peer),
        "tokens_per_second_with_prompt": median(
            by_prompt(groups, lambda group: group[label].speed_with_prompt)
        ),
        "best_peer": peer,
        "speedup_with_prompt": ratios[0],
        "answer_speedup": ratios,
        "seconds_to_first_token": None
        if None in firsts
        else median(by_prompt(groups, lambda group: group[label].first_token_seconds or 0.0)),
        **_counts(runs),
        "shares": _shares(runs),
        "identical": sum(compared),
        "compared": len(compared),
    }


def _decoding_figures(groups: Groups, label: str, base: str, peer: str | None) -> dict[str, Any]:
    """Figures of the seconds after the prompt, which other programs may not tell."""
    names = ("tokens_per_second", "speedup", "speedup_over_peer", "pooled_speedup", "draft_share")
    if not all(_tells_prompt(groups, each) for each in (label, base)):
        return dict.fromkeys(names)
    runs = [group[label] for group in groups]
    decode_seconds = sum(run.decode_seconds for run in runs)
    draft_seconds = sum(run.draft_seconds for run in runs)
    figures = (
        median_speed(groups, label),
        speedup(groups, label, base),
        None if peer is None else speedup(groups, label, peer),
        pooled_speed(groups, label) / pooled_speed(groups, base),
        draft_seconds / decode_seconds,
    )
    return dict(zip(names, figures, strict=True))


def _counts(runs: Sequence[Run]) -> dict[str, Any]:
    """Raw counts, pooled over the runs, and the two rates that are made of them."""
    passes = [run.passes for run in runs if run.passes is not None]
    drafted, accepted = sum(run.drafted for run in runs), sum(run.accepted for run in runs)
    delivered = sum(run.tokens for run in runs)
    return {
        "passes": sum(passes) if passes else None,
        "drafted": drafted,
        "accepted": accepted,
        "delivered": delivered,
        "acceptance_rate": accepted / drafted if drafted else 0.0,
        "mean_accepted_length": delivered / sum(passes) if passes else None,
        "depths": add_depths([run.depths for run in runs]),
    }


def _shares(runs: Sequence[Run]) -> dict[str, float] | None:
    """Parts of the seconds of all answers, by phase; None where a program does not tell."""
    if any(run.passes is None or run.prefill_seconds is None for run in runs):
        return None
    whole = sum(run.seconds for run in runs)
    parts = {
        "prompt": sum(run.prefill_seconds or 0.0 for run in runs),
        "draft": sum(run.draft_seconds for run in runs),
        "verify": sum(run.verify_seconds for run in runs),
        "accept": sum(run.accept_seconds for run in runs),
    }
    shares = {name: seconds / whole for name, seconds in parts.items()}
    return {**shares, "rest": 1 - sum(shares.values())}


def _tells_prompt(groups: Groups, label: str) -> bool:
    return all(group[label].prefill_seconds is not None for group in groups)


def speedup(groups: Groups, label: str, base: str) -> list[float]:
    """Times as fast as another subject: median and quartiles over the prompts."""
    ratios = by_prompt(groups, lambda group: group[label].speed / group[base].speed)
    spread = Spread.of(ratios)
    return [spread.middle, spread.low, spread.high]


def answer_speedup(groups: Groups, label: str, base: str) -> list[float]:
    """As `speedup`, the reading of the prompt included."""
    ratios = by_prompt(
        groups, lambda group: group[label].speed_with_prompt / group[base].speed_with_prompt
    )
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


def base_of(groups: Groups) -> str:
    """The subject that all others are compared with: the first of every group."""
    return next(iter(groups[0]))


def _first(group: Mapping[str, Run]) -> Run:
    return next(iter(group.values()))


def _distinct(values: Iterable[Value]) -> list[Value]:
    return list(dict.fromkeys(values))
