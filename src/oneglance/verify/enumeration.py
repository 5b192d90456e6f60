"""Every outcome of a random program, with its exact probability.

Statistics can only fail to find a bias; enumeration shows that there is none. `run` is the real
code (a rule, a drafter, a whole decode loop): it is replayed once for each combination of the
coins and draws that it asks for, and the probabilities are multiplied. Feasible for vocabularies
of a few tokens and drafts of a few positions, which is where every branch of a rule is reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from oneglance.errors import ParameterError
from oneglance.sampling.noise import Noise
from oneglance.types import Float64Array

Outcome = TypeVar("Outcome", bound=Hashable)


_Question = tuple[str, float]
"""("coin", its probability) or ("draw", size of the law): what a replay must ask again."""


@dataclass
class _Choice:
    """A random choice, its possible outcomes, and which of them is being explored."""

    question: _Question
    outcomes: tuple[int, ...]
    probabilities: tuple[float, ...]
    explored: int = 0


class BranchingNoise(Noise):
    """Noise whose outcomes are scripted, so that all of them can be visited depth first.

    Outcomes of probability 0 are left out, as production noise never yields them.
    """

    def __init__(self) -> None:
        """Starts at the first branch of everything."""
        self._choices: list[_Choice] = []
        self._next = 0
        self.probability = 1.0
        """Probability of the outcomes given since `restart`."""

    def coin(self, probability: float) -> bool:
        """Both sides in turn, True first."""
        assert probability >= 0, "a probability is negative or NaN"
        if probability <= 0:
            return False
        if probability >= 1:
            return True
        question = ("coin", probability)
        if self._next == len(self._choices):
            self._choices.append(_Choice(question, (1, 0), (probability, 1.0 - probability)))
        return self._follow(question) == 1

    def draw(self, probs: Float64Array) -> int:
        """Each index of positive probability in turn."""
        question = ("draw", len(probs))
        if self._next == len(self._choices):
            total = math.fsum(probs)
            assert 0 < total < math.inf, "a law to draw from has no mass, or NaN"
            ids = np.flatnonzero(probs)
            shares = tuple(float(share) / total for share in probs[ids])
            self._choices.append(_Choice(question, tuple(int(token) for token in ids), shares))
        return self._follow(question)

    def restart(self) -> None:
        """Begins the next replay."""
        self._next = 0
        self.probability = 1.0

    def advance(self) -> bool:
        """Turns to the next unexplored branch; False if there is none left."""
        assert self._next == len(self._choices), "a replay asked for fewer choices than before"
        while self._choices:
            choice = self._choices[-1]
            choice.explored += 1
            if choice.explored < len(choice.outcomes):
                return True
            self._choices.pop()
        return False

    def _follow(self, question: _Question) -> int:
        choice = self._choices[self._next]
        assert choice.question == question, "a replay asked another question than before"
        self._next += 1
        self.probability *= choice.probabilities[choice.explored]
        return choice.outcomes[choice.explored]


def enumerate_outcomes(
    run: Callable[[Noise], Outcome], limit: int = 1_000_000
) -> dict[Outcome, float]:
    """The exact law of what `run` returns.

    Args:
        run: a function of its noise alone: given the same outcomes it must ask the same
            questions and return the same value, which must be hashable.
        limit: most replays.

    Returns:
        Each value that can occur with its probability; they sum to 1 up to rounding.

    Raises:
        ParameterError: `limit` replays did not reach the end.
    """
    noise = BranchingNoise()
    parts: dict[Outcome, list[float]] = {}
    for _ in range(limit):
        noise.restart()
        value = run(noise)
        parts.setdefault(value, []).append(noise.probability)
        if not noise.advance():
            return {value: math.fsum(shares) for value, shares in parts.items()}
    raise ParameterError(
        f"limit = {limit!r} replays do not reach every outcome; raise it, or enumerate a smaller "
        "vocabulary or a shorter draft."
    )
