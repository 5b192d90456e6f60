"""Measuring on the real default model: paired, equal, resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from oneglance.bench.measure import DifferentAnswerError, Questions, measure
from oneglance.bench.plan import Plan
from oneglance.bench.prompts import BenchPrompt
from oneglance.bench.run import Run
from oneglance.bench.subject import Answer, Question, Subject
from oneglance.bench.variant import (
    Variant,
    parse_variant,
    plain_variant,
)
from oneglance.bench.work import WorkFile
from oneglance.config import EngineConfig
from oneglance.errors import ParameterError
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
