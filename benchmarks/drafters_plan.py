"""What the drafters' benchmark asks: prompts at temperatures, in rounds.

A group is one prompt at one temperature in one round, answered by every subject in turn. Only runs
of one group are compared, so what slowed a group slowed all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.drafters_prompts import BenchPrompt
from oneglance.config import SamplingParams


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
        predicts_own_answer: each question comes with the model's own answer, changed here and
            there.
    """

    prompts: tuple[BenchPrompt, ...]
    temperatures: tuple[float, ...]
    rounds: int
    max_tokens: int
    is_seeded: bool = True
    predicts_own_answer: bool = False

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
