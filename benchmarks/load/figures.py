"""The figures that follow from rounds under load: the one definition of each, and their tables.

Tokens per second are those of all answers of a round together, over the seconds from its first
request to the end of its last answer. Ratios are taken within a round first, so that what slowed a
whole round cancels out. Times of single answers are pooled over the rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from benchmarks.load.level import LoadRun
from oneglance.bench.grid import NONE, Grid, show
from oneglance.bench.subject import PEER
from oneglance.bench.timing import Spread

AUTO, OFF = "auto", "off"
"""Labels of our server as it is, and with speculation switched off by each request."""

Rounds = Sequence[Mapping[str, LoadRun]]
Report = Mapping[str, Any]


def level_results(rounds: Rounds) -> dict[str, dict[str, Any]]:
    """A summary of each subject over the rounds of one level."""
    peer = best_peer(rounds)
    return {label: _summary(rounds, label, peer) for label in rounds[0]}


def best_peer(rounds: Rounds) -> str | None:
    """Of llama-server's settings, that with the most tokens per second; None without one."""
    peers = [label for label in rounds[0] if label.startswith(PEER)]
    return max(peers, key=lambda label: _speeds(rounds, label).middle, default=None)


def _summary(rounds: Rounds, label: str, peer: str | None) -> dict[str, Any]:
    """The figures of one subject.

    `over_off` and `over_peer` are its tokens per second over those of our server without
    speculation, and over those of llama-server's best setting; `client_share` is the part of all
    processor time that asking took; of `requests` answers, `identical` were those of the first
    subject.
    """
    runs = [each[label] for each in rounds]
    return {
        "requests": sum(run.requests for run in runs),
        "tokens": sum(run.tokens for run in runs),
        "tokens_per_second": astuple(_speeds(rounds, label)),
        "over_off": astuple(_ratios(rounds, label, OFF)),
        "over_peer": None if peer is None else astuple(_ratios(rounds, label, peer)),
        "best_peer": peer,
        "first_token_ms": _percentiles([each for run in runs for each in run.first_token_seconds]),
        "token_ms": _percentiles([each for run in runs for each in run.seconds_per_token]),
        "client_share": _client_share(runs),
        "identical": sum(run.identical for run in runs),
        "counts": _counts(runs),
    }


def _speeds(rounds: Rounds, label: str) -> Spread:
    return Spread.of([each[label].tokens / each[label].seconds for each in rounds])


def _ratios(rounds: Rounds, label: str, base: str) -> Spread:
    return Spread.of([_speed(each[label]) / _speed(each[base]) for each in rounds])


def _speed(run: LoadRun) -> float:
    return run.tokens / run.seconds


def _percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    """Milliseconds; None where nothing was timed."""
    if not seconds:
        return None
    middle, high = np.percentile(seconds, (50, 99))
    return {"p50": float(1000 * middle), "p99": float(1000 * high)}


def _client_share(runs: Sequence[LoadRun]) -> float | None:
    client, server = 0.0, 0.0
    for run in runs:
        if run.server_seconds is None:
            return None
        client, server = client + run.client_seconds, server + run.server_seconds
    return client / (client + server)


def _counts(runs: Sequence[LoadRun]) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for run in runs:
        if run.counts is None:
            return None
        for name, value in run.counts.items():
            found[name] = found.get(name, 0.0) + value
    return found


def serving_grids(report: Report) -> list[Grid]:
    """The tables of a report: tokens per second, and times of single answers."""
    title = f"{report['model']} ({report['quantization']}), greedy"
    labels = list(dict.fromkeys(label for each in report["results"].values() for label in each))
    return [
        Grid(
            f"{title}: tokens per second of all requests together",
            ("requests at once", *labels, f"{AUTO} over {OFF}", f"{AUTO} over {PEER}"),
            tuple(_speed_row(level, result, labels) for level, result in report["results"].items()),
        ),
        Grid(
            f"{title}: milliseconds of single answers, median and 99th percentile",
            (
                "requests at once",
                *(f"{label}, first token" for label in labels),
                *(f"{label}, per token" for label in labels),
            ),
            tuple(_time_row(level, result, labels) for level, result in report["results"].items()),
        ),
    ]


def _speed_row(level: str, result: Mapping[str, Any], labels: Sequence[str]) -> tuple[str, ...]:
    auto = result[AUTO]
    return (
        level,
        *(show(Spread(*result[label]["tokens_per_second"]), ".1f") for label in labels),
        show(Spread(*auto["over_off"]), ".2f"),
        NONE if auto["over_peer"] is None else show(Spread(*auto["over_peer"]), ".2f"),
    )


def _time_row(level: str, result: Mapping[str, Any], labels: Sequence[str]) -> tuple[str, ...]:
    return (
        level,
        *(_times(result[label]["first_token_ms"], ".0f") for label in labels),
        *(_times(result[label]["token_ms"], ".1f") for label in labels),
    )


def _times(milliseconds: Mapping[str, float] | None, form: str) -> str:
    if milliseconds is None:
        return NONE
    return f"{milliseconds['p50']:{form}} / {milliseconds['p99']:{form}}"
