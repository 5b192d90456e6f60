"""Measurements by turns, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Spread:
    """A median and the quartiles around it: half of all samples lie between `low` and `high`."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Of one sample or more, each of which counts alike."""
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0])
        low, _, high = quantiles(samples, n=4, method="inclusive")
        return cls(median(samples), low, high)


def alternate(
    tasks: Mapping[Key, Callable[[], Sample]],
    rounds: int,
    report: Callable[[Key], None],
) -> dict[Key, list[Sample]]:
    """Runs all tasks once in each round, there and back by turns.

    A machine that grows slower or faster meanwhile, or is busy for a while, so treats all alike:
    the samples of one round belong together, and ratios are taken within a round.

    Args:
        tasks: what to do; each returns a sample.
        rounds: how many samples of each.
        report: told which task comes next.

    Returns:
        For each task its samples in the order of the rounds.
    """
    samples: dict[Key, list[Sample]] = {key: [] for key in tasks}
    for number in range(rounds):
        for key in list(tasks)[:: 1 if number % 2 == 0 else -1]:
            report(key)
            samples[key].append(tasks[key]())
    return samples


def seconds_of(action: Callable[[], object]) -> float:
    """Wall-clock time of a call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
