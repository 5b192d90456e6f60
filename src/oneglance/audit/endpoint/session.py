"""What the checks of a server share: the servers, prompts, sizes, and answers asked for before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneglance.audit.endpoint.answer import Answer
from oneglance.audit.endpoint.compare import noise, tie_bound
from oneglance.audit.endpoint.server import Api, Server
from oneglance.audit.verdict import Verdict

PROMPTS: dict[Api, tuple[str, ...]] = {
    "completions": (
        "The capital of France is",
        "1, 2, 3, 4, 5, 6, 7, 8, 9,",
        "def is_even(number):\n    return number % 2 == 0\n\ndef is_odd(number):\n",
        "Once upon a time there was a little",
        "the cat sat on the mat. the cat sat on the mat. the cat sat on the",
    ),
    "chat": (
        "Name the capital of France.",
        "Count from 1 to 20, separated by commas.",
        "Repeat three times: the cat sat on the mat.",
        "Write a short poem about the sea.",
        "Write a Python function that tells whether a number is even.",
    ),
}
"""Texts that are easily guessed, which is where drafts are long, and texts that are not."""


@dataclass(frozen=True)
class Sizes:
    """How much is asked.

    Attributes:
        num_tokens: length of greedy answers.
        num_samples: sampled answers per API, over all prompts together.
        num_sampled_tokens: length of sampled answers.
        alpha: chance of a false alarm in the whole report.
        seed: of the audit's own randomness.
    """

    num_tokens: int = 48
    num_samples: int = 200
    num_sampled_tokens: int = 8
    alpha: float = 0.01
    seed: int = 0


@dataclass
class Session:
    """One API of the audited server, and of the one that it is compared with.

    Attributes:
        server: what is audited.
        against: the reference, the same model without speculation, say; None: there is none.
        sizes: how much to ask.
        prompts: texts for this API.
        context_length: of the model; None: unknown.
    """

    server: Server
    against: Server | None
    sizes: Sizes
    prompts: Sequence[str]
    context_length: int | None = None
    _greedy: dict[tuple[str, int], list[Answer]] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """What verdicts are about."""
        return self.server.name

    def greedy(self, prompt: str, repeat: int = 0) -> Answer:
        """The greedy answer of the audited server, and that when it is asked again."""
        return self._kept(self.server, prompt, repeat)

    def reference(self, prompt: str) -> Answer:
        """The greedy answer of the reference."""
        assert self.against is not None, "there is no reference"
        return self._kept(self.against, prompt, 0)

    def is_repeatable(self, prompt: str) -> bool:
        """Whether the audited server gives the same greedy answer twice."""
        return self.greedy(prompt).text == self.greedy(prompt, 1).text

    def bound(self) -> float:
        """How close tokens must be for rounding to explain a change of places, as measured."""
        pairs = [(self.greedy(prompt), self.greedy(prompt, 1)) for prompt in self.prompts]
        if self.against is not None:
            pairs += [(self.greedy(prompt), self.reference(prompt)) for prompt in self.prompts]
        return tie_bound(noise(pairs))

    def _kept(self, server: Server, prompt: str, repeat: int) -> Answer:
        answers = self._greedy.setdefault((prompt, id(server)), [])
        while len(answers) <= repeat:
            answers.append(server.greedy(prompt, self.sizes.num_tokens))
        return answers[repeat]


CheckFunction = Callable[[Session], list[Verdict]]


@dataclass(frozen=True)
class Check:
    """A property, by the name that `--check` takes, and what looks at it."""

    name: str
    run: CheckFunction
