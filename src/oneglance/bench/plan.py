"""What a benchmark asks: prompts at temperatures, in rounds.

A group is one prompt at one temperature in one round, answered by every subject in turn. Only runs
of one group are compared, so what slowed a group slowed all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from oneglance.bench.prompts import BenchPrompt
from oneglance.config import SamplingParams
from oneglance.errors import ParameterError


@dataclass(frozen=True)
class Plan:
    """What is asked of every subject.

    Attributes:
        prompts: the questions.
        temperatures: each prompt is answered at each.
        rounds: how many times.
        max_tokens: of an answer.
        is_seeded: sampled answers have a seed for each prompt, so that all subjects give the same
            tokens; otherwise each draws its own.
    """

    prompts: tuple[BenchPrompt, ...]
    temperatures: tuple[float, ...]
    rounds: int
    max_tokens: int
    is_seeded: bool = True

    def groups(self) -> list[Group]:
        """All of them, round by round; the order of the subjects turns from one to the next."""
        return [
            Group(prompt, temperature, number, is_reversed=(number + index) % 2 == 1)
            for number in range(self.rounds)
            for temperature in self.temperatures
            for index, prompt in enumerate(self.prompts)
        ]

    def params(self, prompt: BenchPrompt, temperature: float) -> SamplingParams:
        """How an answer is sampled; greedy answers need no seed."""
        has_seed = self.is_seeded and temperature > 0
        return SamplingParams(
            max_tokens=self.max_tokens,
            temperature=temperature,
            seed=prompt.seed if has_seed else None,
        )

    def must_agree(self, temperature: float) -> bool:
        """Whether all subjects must give the same tokens."""
        return self.is_seeded or temperature == 0


@dataclass(frozen=True)
class Group:
    """A prompt at a temperature in a round."""

    prompt: BenchPrompt
    temperature: float
    round: int
    is_reversed: bool

    @property
    def key(self) -> tuple[str, float, int]:
        """Names it among all groups."""
        return self.prompt.id, self.temperature, self.round


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Numbers of at least 0, with commas between.

    Raises:
        ParameterError: one is none, or comes twice.
    """
    try:
        numbers = tuple(float(word) for word in text.split(","))
    except ValueError:
        numbers = ()
    is_possible = all(0 <= number < math.inf for number in numbers)
    if not numbers or not is_possible or len(set(numbers)) < len(numbers):
        raise ParameterError(
            f"The temperatures {text!r} are no list of different numbers of at least 0; write it "
            "as in 0,0.8."
        )
    return numbers
