"""Times passes of a target and calls of drafters, within a few seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from oneglance.control.calibration import Calibration
from oneglance.engine.base import Batch, Engine, SequenceId, TreeRows
from oneglance.engine.prefill import prefill
from oneglance.types import Float64Array, IntArray

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_SHORT, _LONG = 32, 512
_PREFILL_SHARE = 0.3
_ROUNDS = 5


@dataclass(frozen=True)
class PassTimes:
    """Seconds of passes by context and rows."""

    seconds: Mapping[tuple[int, int], Sequence[float]]

    def calibration(self, guessed_share: float) -> Calibration:
        """Costs by rows behind no context, and the price of attending.

        Args:
            guessed_share: the price of attending where one context alone was measured.
        """
        # Whatever else the machine does can only add to a time.
        times = {key: min(each) for key, each in self.seconds.items()}
        short = min(context for context, _ in times)
        rows = tuple(sorted(count for context, count in times if context == short))
        one = times[short, 1]
        long = [(context, count) for context, count in times if context != short]
        share = guessed_share
        if long:
            slopes = [
                (times[context, count] - times[short, count]) / (count * (context - short) * one)
                for context, count in long
            ]
            share = max(median(slopes), 0.0)
        bare = [times[short, count] - one * share * count * short for count in rows]
        seconds = plausible(rows, np.maximum.accumulate(np.maximum(bare, 0.1 * one)))
        return Calibration(rows, tuple(seconds.tolist()), share)


def plausible(rows: Sequence[int], seconds: Float64Array) -> Float64Array:
    """Costs of passes, none above what its rows would cost in several smaller passes.

    A pass that others interrupted each time, as on a busy machine, would otherwise be believed to
    be dear, and never be tried again.

    Args:
        rows: [n] sizes in ascending order.
        seconds: [n] what a pass of each took.
    """
    bounded = seconds.copy()
    for index, count in enumerate(rows):
        parts = -(-count // np.array(rows[: index + 1]))
        bounded[index] = np.min(parts * bounded[: index + 1])
    return bounded


def measure_passes(
    engine: Engine,
    tokens: Sequence[int],
    budget_seconds: float,
    clock: Callable[[], float] = perf_counter,
) -> PassTimes:
    """Times passes of 1 to 32 rows, by turns, behind a short and a long context.

    Args:
        engine: the target; what it holds is left as it was.
        tokens: of any text, at least one; repeated as often as needed.
        budget_seconds: no round begins after this; the first round always ends.
        clock: where the time comes from.

    Returns:
        Samples; sizes that the context has no room for, or that would take too long, are missing.
    """
    started = clock()
    text = np.resize(np.asarray(tokens, dtype=np.int64), _LONG + ROWS[-1])
    samples: dict[tuple[int, int], list[float]] = {}
    sequence = engine.open()
    try:
        room = engine.config.context_length
        prefill(engine, sequence, text[: min(_SHORT, room // 2)].tolist(), ROWS[-1])
        short = engine.length(sequence)
        sizes = [count for count in ROWS if short + count <= room]
        _time(engine, sequence, text[:1], clock)  # touches every weight once
        samples |= _rounds(engine, sequence, text, sizes, started + 0.4 * budget_seconds, clock)
        per_token = min(samples[short, sizes[-1]]) / sizes[-1]
        affordable = int(_PREFILL_SHARE * budget_seconds / per_token)
        long = min(_LONG, short + affordable, room - sizes[-1])
        if long >= 4 * short:
            prefill(engine, sequence, text[short:long].tolist(), ROWS[-1])
            end = started + 0.9 * budget_seconds
            samples |= _rounds(engine, sequence, text, sizes[::3], end, clock)
    finally:
        engine.close(sequence)
    return PassTimes(samples)


def _rounds(
    engine: Engine,
    sequence: SequenceId,
    text: IntArray,
    sizes: Sequence[int],
    end: float,
    clock: Callable[[], float],
) -> dict[tuple[int, int], list[float]]:
    """Times each size in turn, there and back, until `end`; once in any case."""
    context = engine.length(sequence)
    samples: dict[tuple[int, int], list[float]] = {(context, count): [] for count in sizes}
    for number in range(_ROUNDS):
        if number > 0 and clock() > end:
            break
        for count in sizes[:: 1 if number % 2 == 0 else -1]:
            samples[context, count].append(_time(engine, sequence, text[:count], clock))
    return samples


def _time(
    engine: Engine, sequence: SequenceId, tokens: IntArray, clock: Callable[[], float]
) -> float:
    """Seconds of a pass over a chain with the logits of all rows, as checking a draft needs."""
    start = clock()
    engine.forward(Batch((TreeRows.chain(sequence, tokens.tolist()),)))
    seconds = clock() - start
    engine.commit(sequence, [])
    return seconds
