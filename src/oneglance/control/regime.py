"""Where a machine turns from memory-bound to compute-bound, and where speculation stops paying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from oneglance.control.plan import Draft, expected_tokens
from oneglance.engine.base import Batch, Engine, SequenceId, TreeRows
from oneglance.engine.prefill import prefill

_CONTEXT = 32
_ROUNDS = 3


@dataclass(frozen=True)
class BatchTimes:
    """Seconds of passes over so many sequences.

    Attributes:
        batch: number of sequences.
        plain: with one row for each.
        verifying: with K + 1 rows for each.
    """

    batch: int
    plain: float
    verifying: float


@dataclass(frozen=True)
class Roofline:
    """The limits of a machine for the matrices of one model.

    Attributes:
        memory_seconds: to read all weights once.
        row_seconds: to multiply one row with them at the highest rate that was measured.
    """

    memory_seconds: float
    row_seconds: float

    def seconds(self, num_rows: float) -> float:
        """The least that a pass of so many rows can take."""
        return max(self.memory_seconds, num_rows * self.row_seconds)

    @property
    def ridge(self) -> float:
        """Rows of a pass at which it turns from memory-bound to compute-bound."""
        return self.memory_seconds / self.row_seconds


def measure_batches(
    engine: Engine,
    tokens: Sequence[int],
    batches: Sequence[int],
    num_draft_tokens: int,
    budget_seconds: float,
    clock: Callable[[], float] = perf_counter,
) -> list[BatchTimes]:
    """Times passes with and without drafts, by turns.

    Args:
        engine: the target; its sequences are closed afterwards.
        tokens: of any text; at least one.
        batches: numbers of sequences, in ascending order.
        num_draft_tokens: K.
        budget_seconds: no further batch size is begun after this.
        clock: where the time comes from.
    """
    text = (list(tokens) * (1 + _CONTEXT // len(tokens)))[:_CONTEXT]
    started = clock()
    sequences = [engine.open()]
    found: list[BatchTimes] = []
    try:
        prefill(engine, sequences[0], text, _CONTEXT)
        for batch in batches:
            if found and clock() - started > budget_seconds:
                break
            while len(sequences) < batch:
                sequences.append(engine.fork(sequences[0]))
            found.append(_time(engine, sequences[:batch], text, num_draft_tokens, clock))
    finally:
        for sequence in sequences:
            engine.close(sequence)
    return found


def _time(
    engine: Engine,
    sequences: Sequence[SequenceId],
    text: Sequence[int],
    num_draft_tokens: int,
    clock: Callable[[], float],
) -> BatchTimes:
    """The fastest of some passes: whatever else the machine does can only add to a time."""
    times: dict[int, list[float]] = {1: [], num_draft_tokens + 1: []}
    for _ in range(_ROUNDS):
        for count, samples in times.items():
            drafted = [text[index % len(text)] for index in range(count)]
            rows = tuple(TreeRows.chain(sequence, drafted) for sequence in sequences)
            start = clock()
            engine.forward(Batch(rows))
            samples.append(clock() - start)
            for sequence in sequences:
                engine.commit(sequence, [])
    return BatchTimes(len(sequences), min(times[1]), min(times[num_draft_tokens + 1]))


def roofline(
    times: Sequence[BatchTimes], num_draft_tokens: int, memory_seconds: float | None
) -> Roofline:
    """The limits that some measured passes show.

    Args:
        times: passes, at least one.
        num_draft_tokens: K of those that verify.
        memory_seconds: to read all weights at the bandwidth of the memory; None: not known, then
            the fastest pass stands for it.
    """
    fastest = min(each.plain for each in times)
    row = min(each.verifying / (each.batch * (num_draft_tokens + 1)) for each in times)
    row = min(row, *(each.plain / each.batch for each in times))
    # A cache that holds a part of the weights makes passes faster than the memory would allow.
    return Roofline(fastest if memory_seconds is None else min(memory_seconds, fastest), row)


def speedups(
    times: Sequence[BatchTimes], draft: Draft, num_draft_tokens: int, one_row: float
) -> list[float]:
    """Tokens a second with drafts over those without, for each batch size.

    Args:
        times: passes.
        draft: the drafter.
        num_draft_tokens: K.
        one_row: seconds of the pass that the drafter's cost is in.
    """
    tokens = expected_tokens(draft.acceptance, num_draft_tokens)
    drafting = num_draft_tokens * draft.cost * one_row
    gains = []
    for each in times:
        drafted = each.verifying + each.batch * drafting
        seconds = (1.0 - draft.coverage) * each.plain + draft.coverage * drafted
        gains.append((1.0 + draft.coverage * (tokens - 1.0)) * each.plain / seconds)
    return gains


def sentence(times: Sequence[BatchTimes], gains: Sequence[float], limits: Roofline) -> str:
    """What the figures say, for a person."""
    ridge = max(1, int(limits.ridge))
    bound = f"Passes of up to about {ridge} rows are memory-bound here, compute-bound from there on"
    paying = [each.batch for each, gain in zip(times, gains, strict=True) if gain > 1.0]
    losing = [each.batch for each, gain in zip(times, gains, strict=True) if gain <= 1.0]
    if not paying:
        return f"{bound}; with these drafts speculation does not pay at any batch size."
    if not losing:
        return f"{bound}; speculation pays at every batch size measured, up to {paying[-1]}."
    if min(losing) > max(paying):
        return f"{bound}; speculation pays up to batch {max(paying)}, and not at {min(losing)}."
    return f"{bound}; speculation pays at batch {', '.join(str(each) for each in paying)}."
