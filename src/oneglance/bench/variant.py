"""Drafters with their settings, asked through the door that users take."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from oneglance.bench.measure import Ask
from oneglance.bench.plan import Plan
from oneglance.bench.subject import PLAIN, Answer, Question, count_depths, without_folders
from oneglance.completion import Completion, Piece
from oneglance.control.length import DraftLengthSpec
from oneglance.drafters.spec import split_spec
from oneglance.errors import ParameterError
from oneglance.llm import LLM

_SETTING = re.compile(r"@(k|nodes)=([^@]*)$")


@dataclass(frozen=True)
class Variant:
    """A drafter with its settings, on the model that is measured.

    Attributes:
        label: its name in results.
        llm: the model.
        drafter: as after `--drafter`.
        k: draft tokens on a path.
        tree_nodes: draft tokens on all branches; None: chains.
        is_greedy_only: never.
    """

    label: str
    llm: LLM
    drafter: str
    k: DraftLengthSpec = "auto"
    tree_nodes: int | None = None
    is_greedy_only: bool = False

    def answer(self, question: Question) -> Answer:
        """Answers, streaming."""
        first_token_seconds = completion = None
        started = time.perf_counter()
        with closing(self.open(question)) as pieces:
            for piece in pieces:
                if first_token_seconds is None and piece.tokens:
                    first_token_seconds = time.perf_counter() - started
                completion = piece.completion
        seconds = time.perf_counter() - started
        assert completion is not None, "the last piece of a stream carries the completion"
        return _answer(completion, seconds, first_token_seconds)

    def open(self, question: Question) -> Generator[Piece]:
        """The answer to come; a prediction goes where it is of use.

        Raises:
            OneglanceError: it cannot be given.
        """
        names = {part.name for part in split_spec(self.drafter)}
        return self.llm.stream(
            question.text,
            params=question.params,
            drafter=self.drafter,
            k=self.k,
            tree_nodes=self.tree_nodes,
            prediction=question.prediction if "predicted" in names else None,
            tenant=question.tenant,
        )

    def describe(self) -> dict[str, object]:
        """For the report."""
        drafter = without_folders(self.drafter)
        return {"drafter": drafter, "k": self.k, "tree_nodes": self.tree_nodes}


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


def with_lengths(texts: Iterable[str], lengths: Sequence[DraftLengthSpec]) -> list[str]:
    """Every drafter with every K, as `parse_variant` reads them; one with a K of its own keeps it.

    Args:
        texts: drafters with their settings.
        lengths: values of K; "auto" is left to the drafter's name alone.
    """
    crossed = []
    for text in texts:
        if re.search(r"@k=[^@]*(@nodes=[^@]*)?$", text):
            crossed.append(text)
        else:
            crossed += [text if k == "auto" else f"{text}@k={k}" for k in lengths]
    return crossed


def make_variants(texts: Iterable[str], llm: LLM) -> list[Variant]:
    """Plain decoding, then the drafters.

    Raises:
        ParameterError: the settings of a drafter mean nothing.
    """
    return [plain_variant(llm), *(parse_variant(text, llm) for text in texts)]


def check_prompts(plan: Plan, ask: Ask, variants: Sequence[Variant]) -> None:
    """Refuses what one of the drafters could not answer, before anything is measured.

    Raises:
        OneglanceError: a prompt does not fit, or has no prediction where one is needed.
    """
    for group in plan.groups():
        if group.round == 0:
            question = ask(group)
            for variant in variants:
                variant.open(question).close()


def _answer(completion: Completion, seconds: float, first_token_seconds: float | None) -> Answer:
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
        verify_seconds=stats.verify_seconds,
        accept_seconds=stats.accept_seconds,
        first_token_seconds=first_token_seconds,
        text=completion.text,
    )
