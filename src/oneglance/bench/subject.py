"""Who is measured: what every subject is asked, and what is known of its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oneglance.config import SamplingParams
from oneglance.errors import ParameterError
from oneglance.types import PassTrace, Proposal

PLAIN = "plain"
"""Label of decoding without a drafter."""
PEER = "llama-server"
"""Labels of another program's settings begin so."""
_FOLDERS = re.compile(r"(?<![\w.~-])/(?:[^\s/,:=@]+/)+")


@dataclass(frozen=True)
class Question:
    """What every subject is asked.

    Attributes:
        text: the user's message.
        token_ids: the prompt as the model gets it; empty where no model of ours is measured.
        params: how to sample and when to stop.
        prediction: what the answer will probably be; for drafters that make use of it.
        tenant: whose request it is; drafters that remember answers keep tenants apart.
    """

    text: str
    token_ids: tuple[int, ...]
    params: SamplingParams
    prediction: str | None
    tenant: str


@dataclass(frozen=True)
class Answer:
    """What a subject gave, and what it took.

    Attributes:
        token_ids: None where another program does not tell.
        tokens: how many there are.
        seconds: from the question to the end of the answer.
        prefill_seconds: of these, what the target took to read the prompt; None where another
            program does not tell.
        draft_seconds: of these, what the drafter took; its own reading of the prompt is in it.
        passes: of the target after the prompt; None where another program does not tell.
        drafted: draft tokens that were verified.
        accepted: of these, those that were delivered.
        depths: for each depth from 1 on, in how many passes a token was drafted there, and in how
            many of these one was accepted there.
        verify_seconds: of `seconds`, what the target's passes after the prompt took.
        accept_seconds: of `seconds`, what accepting and delivering took.
        first_token_seconds: from the question to the first token; None where it is not seen.
        text: None where it is not compared with others.
    """

    token_ids: tuple[int, ...] | None
    tokens: int
    seconds: float
    prefill_seconds: float | None
    draft_seconds: float = 0.0
    passes: int | None = None
    drafted: int = 0
    accepted: int = 0
    depths: tuple[tuple[int, int], ...] = ()
    verify_seconds: float = 0.0
    accept_seconds: float = 0.0
    first_token_seconds: float | None = None
    text: str | None = None

    def equals(self, other: Answer) -> bool | None:
        """Whether both are the same tokens, or the same text where tokens are unknown.

        Returns:
            None where neither can be compared.
        """
        if self.token_ids is not None and other.token_ids is not None:
            return self.token_ids == other.token_ids
        if self.text is not None and other.text is not None:
            return self.text == other.text
        return None


class Subject(Protocol):
    """Something that answers questions."""

    @property
    def label(self) -> str:
        """Its name in results."""

    @property
    def is_greedy_only(self) -> bool:
        """It is left out of groups with a temperature, as its random choices are not ours."""

    def answer(self, question: Question) -> Answer:
        """Answers and takes the time."""


def check_labels(subjects: Iterable[Subject]) -> None:
    """Refuses two subjects of one name, whose figures could not be told apart.

    Raises:
        ParameterError: there are two.
    """
    labels = [each.label for each in subjects]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ParameterError(f"{twice[0]!r} is named twice; name each drafter and server once.")


def without_folders(text: str) -> str:
    """The text with every absolute path cut to its last name: results tell no machine's folders."""
    return _FOLDERS.sub("", text)


def count_depths(trace: Iterable[PassTrace]) -> tuple[tuple[int, int], ...]:
    """For each depth from 1 on: passes that drafted so deep, and passes that accepted so deep."""
    pairs = [(_max_depth(each), len(each.accepted)) for each in trace]
    deepest = max((drafted for drafted, _ in pairs), default=0)
    return tuple(
        (
            sum(drafted >= depth for drafted, _ in pairs),
            sum(accepted >= depth for _, accepted in pairs),
        )
        for depth in range(1, deepest + 1)
    )


def _max_depth(each: PassTrace) -> int:
    return Proposal(np.array(each.draft_tokens, int), np.array(each.parents, int)).max_depth
