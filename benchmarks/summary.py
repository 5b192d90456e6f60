"""The figures that follow from the samples of `benchmarks.engine`.

A round's sample is the median of the passes that were done for it. Spreads are over rounds, and
every ratio is taken within a round first, so that what slowed a whole round cancels out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from oneglance.bench.timing import Spread

Report = Mapping[str, Any]


def series(samples: Sequence[Sequence[float] | float]) -> list[float]:
    """One number a round."""
    return [median(sample) if isinstance(sample, Sequence) else sample for sample in samples]


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round."""
    return [first / second for first, second in zip(above, below, strict=True)]


def speeds(samples: Sequence[Mapping[str, float]]) -> list[float]:
    """Tokens per second of the rounds, less the time that read the prompt where it is known."""
    return [
        sample["tokens"] / (sample["seconds"] - sample.get("prefill_seconds", 0.0))
        for sample in samples
    ]


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a pass, round by round, by context and number of rows."""

    seconds: Mapping[tuple[int, int], list[float]]

    @classmethod
    def of(cls, report: Report) -> PassTimes:
        """Those of our engine."""
        found = {}
        for name, samples in report["samples"].items():
            kind, *numbers = name.split()
            if kind == "pass":
                context, rows = map(int, numbers)
                found[context, rows] = series(samples)
        return cls(found)

    @classmethod
    def of_llama(cls, report: Report) -> PassTimes:
        """Those of llama.cpp, behind the one context that it was measured at."""
        rounds = report["samples"]["llama-bench"]
        return cls(
            {
                (rounds[0]["context"], int(rows)): series([each["passes"][rows] for each in rounds])
                for rows in rounds[0]["passes"]
            }
        )

    @property
    def contexts(self) -> list[int]:
        """Ascending."""
        return sorted({context for context, _ in self.seconds})

    @property
    def rows(self) -> list[int]:
        """Ascending."""
        return sorted({rows for _, rows in self.seconds})

    def milliseconds(self, context: int, rows: int) -> Spread:
        """Of one pass."""
        return Spread.of([1000 * each for each in self.seconds[context, rows]])

    def ratio(self, context: int, rows: int) -> Spread:
        """To a pass of one row behind the same context."""
        return Spread.of(ratios(self.seconds[context, rows], self.seconds[context, 1]))


def read_rates(report: Report) -> list[float]:
    """Bytes per second of the plain read of memory, round by round."""
    return [report["read_bytes"] / each for each in series(report["samples"]["read"])]


def pass_rates(report: Report, context: int) -> list[float]:
    """Bytes per second of a pass of one row: weights, and keys and values of the context."""
    moved = report["pass_bytes"] + report["kv_bytes_per_token"] * context
    return [moved / each for each in PassTimes.of(report).seconds[context, 1]]


def kernel_shares(samples: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Milliseconds of a pass by kernel, "Python" and "whole pass", in the order of their size."""
    names = {name for sample in samples for name in sample if name != "pass"}
    split = {name: [1000 * sample.get(name, 0.0) for sample in samples] for name in names}
    whole = [1000 * sample["pass"] for sample in samples]
    split["Python"] = [
        all_of_it - sum(times[index] for times in split.values())
        for index, all_of_it in enumerate(whole)
    ]
    spreads = {name: Spread.of(times) for name, times in split.items()}
    ordered = sorted(spreads, key=lambda name: -spreads[name].middle)
    return {**{name: spreads[name] for name in ordered}, "whole pass": Spread.of(whole)}


def bare_kernels(report: Report, context: str, rows: str) -> dict[str, Spread]:
    """Milliseconds of a pass: what the memory alone would take, the bare kernels, and the rest."""
    samples = report["samples"]
    moved = report["pass_bytes"] + report["kv_bytes_per_token"] * int(context)
    memory = [1000 * moved / rate for rate in read_rates(report)]
    products = [1000 * each for each in series(samples[f"products {context} {rows}"])]
    attention = [1000 * each for each in series(samples[f"attention {context} {rows}"])]
    calls = samples[f"kernels {context} {rows}"]
    whole = [1000 * call["pass"] for call in calls]
    python = [2000 * call["pass"] - 1000 * sum(call.values()) for call in calls]
    parts = zip(whole, products, attention, python, strict=True)
    rest = [all_of_it - sum(others) for all_of_it, *others in parts]
    return {
        "(a plain read of the same bytes)": Spread.of(memory),
        "all products alone": Spread.of(products),
        "all attention alone": Spread.of(attention),
        "norms, rotations, quantising, barriers": Spread.of(rest),
        "Python": Spread.of(python),
        "whole pass": Spread.of(whole),
    }
