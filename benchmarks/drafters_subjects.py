"""What is measured: plain decoding and drafters, each asked the same question in turn."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from oneglance.completion import Completion
from oneglance.config import SamplingParams
from oneglance.control.length import DraftLengthSpec
from oneglance.drafters.spec import split_spec
from oneglance.errors import ParameterError
from oneglance.llm import LLM
from oneglance.types import PassTrace

PLAIN = "plain"
PEER = "llama-server"
"""Labels of another program's settings begin so."""
_SETTING = re.compile(r"@(k|nodes)=([^@]*)$")
_FOLDERS = re.compile(r"(?<![\w.~-])/(?:[^\s/,:=@]+/)+")


@dataclass(frozen=True)
class Question:
    """What every subject is asked.

    Attributes:
        text: the user's message.
        token_ids: the prompt as the model gets it.
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
        prefill_seconds: of these, what the target took to read the prompt.
        draft_seconds: of these, what the drafter took; its own reading of the prompt is in it.
        passes: of the target after the prompt; None where another program does not tell.
        drafted: draft tokens that were verified.
        accepted: of these, those that were delivered.
        depths: for each depth from 1 on, in how many passes a token was drafted there, and in how
            many of these one was accepted there.
    """

    token_ids: tuple[int, ...] | None
    tokens: int
    seconds: float
    prefill_seconds: float
    draft_seconds: float = 0.0
    passes: int | None = None
    drafted: int = 0
    accepted: int = 0
    depths: tuple[tuple[int, int], ...] = ()


class Subject(Protocol):
    """Something that answers questions."""

    @property
    def label(self) -> str:
        """Its name in results."""

    @property
    def is_peer(self) -> bool:
        """Another program: asked greedily only, and its tokens are not compared with ours."""

    def answer(self, question: Question) -> Answer:
        """Answers and takes the time."""


@dataclass(frozen=True)
class Variant:
    """A drafter with its settings, on the model that is measured.

    Attributes:
        label: its name in results.
        llm: the model.
        drafter: as after `--drafter`.
        k: draft tokens on a path.
        tree_nodes: draft tokens on all branches; None: chains.
        is_peer: never.
    """

    label: str
    llm: LLM
    drafter: str
    k: DraftLengthSpec = "auto"
    tree_nodes: int | None = None
    is_peer: bool = False

    def answer(self, question: Question) -> Answer:
        """Answers through the door that users take; a prediction goes where it is of use."""
        names = {part.name for part in split_spec(self.drafter)}
        started = time.perf_counter()
        completion = self.llm.generate(
            question.text,
            params=question.params,
            drafter=self.drafter,
            k=self.k,
            tree_nodes=self.tree_nodes,
            prediction=question.prediction if "predicted" in names else None,
            tenant=question.tenant,
        )
        return _answer(completion, time.perf_counter() - started)


def plain_variant(llm: LLM) -> Variant:
    """Decoding without a drafter: what all others are compared with."""
    return Variant(PLAIN, llm, "none")


def parse_variant(text: str, llm: LLM) -> Variant:
    """Reads DRAFTER, DRAFTER@k=8, DRAFTER@nodes=16 or DRAFTER@k=8@nodes=16.

    Raises:
        ParameterError: a setting that is no whole number of at least 1, or comes twice.
    """
    settings: dict[str, int] = {}
    drafter = text
    while found := _SETTING.search(drafter):
        name, value = found.groups()
        if name in settings or not value.isdecimal() or int(value) < 1:
            raise ParameterError(
                f"The drafter {text!r} cannot be measured with {name} = {value!r}; write each "
                "setting once, as a whole number of at least 1."
            )
        settings[name] = int(value)
        drafter = drafter[: found.start()]
    return Variant(
        without_folders(text), llm, drafter, settings.get("k", "auto"), settings.get("nodes")
    )


def without_folders(text: str) -> str:
    """The text with every absolute path cut to its last name: results tell no machine's folders."""
    return _FOLDERS.sub("", text)


def count_depths(trace: Iterable[PassTrace]) -> tuple[tuple[int, int], ...]:
    """For each depth from 1 on: passes that drafted so deep, and passes that accepted so deep."""
    pairs = [(_max_depth(each.parents), len(each.accepted)) for each in trace]
    deepest = max((drafted for drafted, _ in pairs), default=0)
    return tuple(
        (
            sum(drafted >= depth for drafted, _ in pairs),
            sum(accepted >= depth for _, accepted in pairs),
        )
        for depth in range(1, deepest + 1)
    )


def _max_depth(parents: Sequence[int]) -> int:
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)


def _answer(completion: Completion, seconds: float) -> Answer:
    stats = completion.stats
    return Answer(
        token_ids=completion.token_ids,
        tokens=stats.delivered,
        seconds=seconds,
        prefill_seconds=stats.prefill_seconds,
        draft_seconds=stats.draft_seconds,
        passes=stats.passes,
        drafted=stats.drafted,
        accepted=stats.accepted,
        depths=count_depths(completion.trace),
    )
