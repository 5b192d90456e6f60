"""Measuring on the real default model: paired, equal, resumed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import ClassVar

import numpy as np
import pytest

from oneglance.bench.measure import DifferentAnswerError, Questions, finished, measure
from oneglance.bench.plan import Plan
from oneglance.bench.prompts import BenchPrompt
from oneglance.bench.run import Run
from oneglance.bench.session import Session
from oneglance.bench.subject import Answer, Question, Subject
from oneglance.bench.variant import (
    Variant,
    check_prompts,
    parse_variant,
    plain_variant,
    with_lengths,
)
from oneglance.bench.work import WorkFile
from oneglance.config import EngineConfig
from oneglance.errors import CapacityError, ParameterError
from oneglance.llm import LLM, load

PROMPT = BenchPrompt("p", "qa", "Repeat three times: one two three four five.")


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with load(drafter="none", engine_config=EngineConfig(kind="native", kept_prefixes=0)) as llm:
        yield llm


def plan(*temperatures: float, rounds: int = 1) -> Plan:
    return Plan((PROMPT,), temperatures, rounds, max_tokens=24)


def measured(
    plan: Plan, llm: LLM, subjects: list[Subject], work: WorkFile | None = None
) -> list[dict[str, Run]]:
    ask = Questions(plan, llm.encode)
    return measure(plan, ask, subjects, work or memory(), ignore)


def ignore(_number: int, _total: int, _runs: dict[str, Run]) -> None:
    """Hears nothing of the progress."""


def memory() -> WorkFile:
    return WorkFile(None, {})


@dataclass
class Recorder:
    """A subject that notes who is asked, and may change the last token of an answer."""

    variant: Variant
    order: list[str]
    label: str
    is_greedy_only: bool = False
    is_wrong: bool = False

    def answer(self, question: Question) -> Answer:
        self.order.append(self.label)
        answer = self.variant.answer(question)
        assert answer.token_ids is not None
        if self.is_wrong:
            return replace(answer, token_ids=(*answer.token_ids[:-1], answer.token_ids[-1] + 1))
        return answer


def test_answers_are_equal_and_counted(llm: LLM) -> None:
    subjects: list[Subject] = [plain_variant(llm), parse_variant("ngram@k=4", llm)]
    groups = measured(plan(0.0, 0.8), llm, subjects)
    assert [group["plain"].temperature for group in groups] == [0.0, 0.8]
    for group in groups:
        plain, drafted = group["plain"], group["ngram@k=4"]
        assert plain.tokens == drafted.tokens
        assert plain.passes == plain.tokens
        assert plain.drafted == 0
        assert drafted.passes is not None
        assert 0 < drafted.passes <= plain.passes
        assert drafted.passes + drafted.accepted >= drafted.tokens
        assert sum(accepted for _, accepted in drafted.depths) == drafted.accepted
        assert sum(passes for passes, _ in drafted.depths) == drafted.drafted  # chains
        assert 0 < drafted.draft_seconds < drafted.decode_seconds < drafted.seconds
    assert groups[0]["ngram@k=4"].accepted > 0


def test_subjects_take_turns_and_peers_only_greedy_ones(llm: LLM) -> None:
    order: list[str] = []
    subjects: list[Subject] = [
        Recorder(plain_variant(llm), order, "plain"),
        Recorder(plain_variant(llm), order, "peer", is_greedy_only=True),
    ]
    groups = measured(plan(0.0, 0.8, rounds=2), llm, subjects)
    assert order == ["plain", "peer", "plain", "peer", "plain", "plain"]
    assert [set(group) for group in groups] == [{"plain", "peer"}, {"plain"}] * 2


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_changed_answer_ends_the_run(llm: LLM, temperature: float) -> None:
    subjects: list[Subject] = [
        plain_variant(llm),
        Recorder(parse_variant("ngram", llm), [], "ngram", is_wrong=True),
    ]
    work = memory()
    with pytest.raises(DifferentAnswerError, match=r"The drafter ngram changed .* prompt p"):
        measured(plan(temperature), llm, subjects, work)
    assert not work.groups
    if temperature > 0:
        unseeded = replace(plan(temperature), is_seeded=False)
        assert len(measured(unseeded, llm, subjects, work)) == 1


def test_what_is_done_is_not_done_again(llm: LLM) -> None:
    order: list[str] = []
    subjects: list[Subject] = [Recorder(plain_variant(llm), order, "plain")]
    work = memory()
    first = measured(plan(0.0), llm, subjects, work)
    both = measured(plan(0.0, rounds=2), llm, subjects, work)
    assert order == ["plain", "plain"]
    assert both[0] == first[0]


def test_tenants_change_from_round_to_round(llm: LLM) -> None:
    repeated = plan(0.0, 0.8, rounds=2)
    questions = Questions(repeated, llm.encode)
    assert len({questions(group).tenant for group in repeated.groups()}) == 4


def test_names_carry_settings(llm: LLM) -> None:
    variant = parse_variant("cascade:ngram,draft:/a/b@c.gguf@k=6@nodes=12", llm)
    assert variant.drafter == "cascade:ngram,draft:/a/b@c.gguf"
    assert (variant.k, variant.tree_nodes) == (6, 12)
    assert variant.label == "cascade:ngram,draft:b@c.gguf@k=6@nodes=12"
    assert parse_variant("ngram", llm) == Variant("ngram", llm, "ngram")


@pytest.mark.parametrize("text", ["ngram@k=0", "ngram@nodes=x", "ngram@k=2@k=3", "ngram@k="])
def test_settings_that_mean_nothing(llm: LLM, text: str) -> None:
    with pytest.raises(ParameterError, match="each setting once"):
        parse_variant(text, llm)


def test_every_drafter_is_measured_with_every_length() -> None:
    crossed = with_lengths(["ngram", "suffix@k=3", "suffix@nodes=9", "a@k=1@nodes=2"], ["auto", 4])
    assert crossed == [
        *("ngram", "ngram@k=4", "suffix@k=3"),
        *("suffix@nodes=9", "suffix@nodes=9@k=4", "a@k=1@nodes=2"),
    ]


@dataclass
class Echo:
    """A program that tells no tokens."""

    text: str
    label: str = "echo"
    is_greedy_only: bool = False

    def answer(self, _question: Question) -> Answer:
        return Answer(None, tokens=3, seconds=1.0, prefill_seconds=None, text=self.text)


def test_another_program_is_compared_by_its_text(llm: LLM) -> None:
    own = llm.generate(PROMPT.text, drafter="none", max_tokens=24).text
    for text, is_identical in ((own, True), (f"{own}.", False)):
        (group,) = measured(plan(0.0), llm, [plain_variant(llm), Echo(text)])
        assert group["echo"].is_identical is is_identical
        assert group["plain"].is_identical is True


@pytest.mark.parametrize("is_seeded", [True, False])
def test_drawn_answers_of_others_are_not_compared(llm: LLM, is_seeded: bool) -> None:
    drawn = replace(plan(0.8), is_seeded=is_seeded)
    (group,) = measured(drawn, llm, [plain_variant(llm), Echo("something")])
    assert group["echo"].is_identical is None
    assert group["plain"].is_identical is (True if is_seeded else None)


def test_the_first_token_comes_before_the_last(llm: LLM) -> None:
    (group,) = measured(plan(0.0), llm, [plain_variant(llm)])
    run = group["plain"]
    assert run.first_token_seconds is not None
    assert run.prefill_seconds is not None
    assert run.prefill_seconds < run.first_token_seconds < run.seconds
    phases = run.prefill_seconds + run.draft_seconds + run.verify_seconds + run.accept_seconds
    assert 0.5 * run.seconds < phases < run.seconds


def test_what_is_finished_can_be_had_at_any_time(llm: LLM) -> None:
    subjects: list[Subject] = [plain_variant(llm)]
    two, work = plan(0.0, rounds=2), memory()
    assert finished(two, subjects, work) == []

    def interrupt(_number: int, _total: int, _runs: dict[str, Run]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(two, Questions(two, llm.encode), subjects, work, interrupt)
    assert [group["plain"].round for group in finished(two, subjects, work)] == [0]


def test_prompts_that_cannot_be_answered_are_refused_first(llm: LLM) -> None:
    long = replace(plan(0.0), prompts=(PROMPT, BenchPrompt("long", "qa", "word " * 9000)))
    with pytest.raises(CapacityError):
        check_prompts(long, Questions(long, llm.encode), [plain_variant(llm)])
    predicted = parse_variant("predicted", llm)
    with pytest.raises(ParameterError, match="has no prediction"):
        check_prompts(plan(0.0), Questions(plan(0.0), llm.encode), [predicted])


class Hungry(Variant):
    """Takes 64 MB for its first answer, as a draft model does for its weights."""

    kept: ClassVar[list[object]] = []

    def answer(self, question: Question) -> Answer:
        if not self.kept:
            self.kept.append(np.ones(64 << 20, np.uint8))
        return super().answer(question)


def memory_taken() -> dict[str, int]:
    """Bytes that each of three variants took, where the second takes 64 MB."""
    with load(drafter="none", engine_config=EngineConfig(kind="native", kept_prefixes=0)) as llm:
        hungry = Hungry("hungry", llm, "ngram")
        variants = [plain_variant(llm), hungry, replace(hungry, label="again")]
        return Session(plan(0.0), variants, [], llm, memory()).prepare()


def test_memory_is_told_of_whom_it_was_taken_by() -> None:
    # In a process of its own: this one may give back what other tests have left, meanwhile.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        taken = process.submit(memory_taken).result()
    assert list(taken) == ["plain", "hungry", "again"]
    assert taken["hungry"] == pytest.approx(64 << 20, rel=0.2)
    assert taken["again"] < 16 << 20
