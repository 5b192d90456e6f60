"""The figures of a trace: rates, shares of the time, the histogram, the race."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from oneglance.show.trace import Race, Run, Trace

PHASES = ("draft", "verify", "accept", "rest")


@dataclass(frozen=True)
class RaceFigures:
    """What the race came to; of several rounds, medians.

    Attributes:
        plain_speed: tokens a second with nothing drafted, the reading of the prompt left out.
        speculative_speed: the same with a drafter.
        speedup: plain seconds ÷ speculative seconds.
        plain_passes: passes of the plain answer.
        speculative_passes: passes of the answer with drafts.
        rounds: how often both were run.
        shares: of the speculative runs' time, by phase of `PHASES`; "rest" is outside them.
        is_identical: whether all answers were the same tokens.
    """

    plain_speed: float
    speculative_speed: float
    speedup: float
    plain_passes: int
    speculative_passes: int
    rounds: int
    shares: dict[str, float]
    is_identical: bool


@dataclass(frozen=True)
class Figures:
    """What the passes came to.

    Attributes:
        passes: of the target.
        drafted: draft tokens that were verified.
        accepted: draft tokens that were delivered.
        delivered: tokens of the answer.
        acceptance_rate: accepted ÷ drafted; 0 if nothing was drafted.
        mean_accepted_length: delivered ÷ passes.
        accepted_lengths: how many passes accepted 0, 1, 2, … draft tokens.
        shares: of the recorded passes' time, by phase; "rest" is 0, as it is not recorded.
        race: None where there was none.
    """

    passes: int
    drafted: int
    accepted: int
    delivered: int
    acceptance_rate: float
    mean_accepted_length: float
    accepted_lengths: tuple[int, ...]
    shares: dict[str, float]
    race: RaceFigures | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def figures(trace: Trace) -> Figures:
    """All figures of a trace."""
    passes = trace.passes
    drafted = sum(len(each.nodes) for each in passes)
    accepted, delivered = trace.answer.num_accepted, trace.answer.num_tokens
    lengths = Counter(len(each.accepted) for each in passes)
    phases = {phase: sum(getattr(each.seconds, phase) for each in passes) for phase in PHASES[:-1]}
    return Figures(
        passes=len(passes),
        drafted=drafted,
        accepted=accepted,
        delivered=delivered,
        acceptance_rate=accepted / drafted if drafted else 0.0,
        mean_accepted_length=delivered / len(passes) if passes else 0.0,
        accepted_lengths=tuple(lengths[count] for count in range(max(lengths, default=-1) + 1)),
        shares=_shares(phases, sum(phases.values())),
        race=None if trace.race is None else race_figures(trace.race),
    )


def race_figures(race: Race) -> RaceFigures:
    """What a race came to."""
    plain, speculative = (
        median(run.decode_seconds for run in runs) for runs in (race.plain, race.speculative)
    )
    total = sum(run.decode_seconds for run in race.speculative)
    phases = {
        phase: sum(getattr(run.seconds, phase) for run in race.speculative) for phase in PHASES[:-1]
    }
    return RaceFigures(
        plain_speed=_speed(race.plain),
        speculative_speed=_speed(race.speculative),
        speedup=plain / speculative,
        plain_passes=race.plain[0].passes,
        speculative_passes=race.speculative[0].passes,
        rounds=len(race.plain),
        shares=_shares(phases, total),
        is_identical=race.is_identical,
    )


def race_sentence(race: RaceFigures) -> str:
    """What the race says, for a person; a loss is called a loss."""
    text = "The texts are identical, bit for bit."
    if not race.is_identical:
        text = "THE TEXTS DIFFER: drafting changed the answer, which is a bug."
    speed = f"Drafting made it {race.speedup:.2f} times as fast."
    if race.speedup < 1:
        speed = f"Drafting made it slower here: {race.speedup:.2f} times the plain speed."
    return f"{text} {speed}"


def _speed(runs: tuple[Run, ...]) -> float:
    return median(run.num_tokens / run.decode_seconds for run in runs)


def _shares(phases: dict[str, float], total: float) -> dict[str, float]:
    shares = {phase: seconds / total if total else 0.0 for phase, seconds in phases.items()}
    return {**shares, "rest": max(0.0, 1.0 - sum(shares.values())) if total else 0.0}
