"""The drafters' benchmark on the real default model: paired, equal, resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.drafters_plan import Plan
from benchmarks.drafters_prediction import nearly_right
from benchmarks.drafters_prompts import BenchPrompt
from benchmarks.drafters_runs import DifferentAnswerError, Questions, measure
from benchmarks.drafters_stages import STAGES, load_target
from benchmarks.drafters_subjects import (
    Answer,
    Question,
    Subject,
    Variant,
    parse_variant,
    plain_variant,
)
from benchmarks.drafters_work import Run, WorkFile
from oneglance.errors import ParameterError
from oneglance.llm import DEFAULT_MODEL, LLM
from tests.benchmarks.test_scripts import run_script
from tests.docs.documents import ROOT
from tests.docs.drafters import section

PROMPT = BenchPrompt("p", "qa", "Repeat three times: one two three four five.")
PROMPTS = ROOT / "tests" / "data" / "prompts.jsonl"


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with load_target(STAGES["default"], DEFAULT_MODEL, None) as llm:
        yield llm


def plan(*temperatures: float, rounds: int = 1) -> Plan:
    return Plan((PROMPT,), temperatures, rounds, max_tokens=24)


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
    is_peer: bool = False
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
    groups = measure(plan(0.0, 0.8), llm, subjects, memory(), ignore)
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
        Recorder(plain_variant(llm), order, "peer", is_peer=True),
    ]
    groups = measure(plan(0.0, 0.8, rounds=2), llm, subjects, memory(), ignore)
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
        measure(plan(temperature), llm, subjects, work, ignore)
    assert not work.groups
    if temperature > 0:
        unseeded = replace(plan(temperature), is_seeded=False)
        assert len(measure(unseeded, llm, subjects, work, ignore)) == 1


def test_what_is_done_is_not_done_again(llm: LLM) -> None:
    order: list[str] = []
    subjects: list[Subject] = [Recorder(plain_variant(llm), order, "plain")]
    work = memory()
    first = measure(plan(0.0), llm, subjects, work, ignore)
    both = measure(plan(0.0, rounds=2), llm, subjects, work, ignore)
    assert order == ["plain", "plain"]
    assert both[0] == first[0]


def test_the_own_answer_is_predicted_with_changes(llm: LLM) -> None:
    predicting = replace(plan(0.0, 0.8), predicts_own_answer=True)
    questions = Questions(predicting, llm, plain_variant(llm))
    predictions = []
    for group in predicting.groups():
        question = questions.of(group)
        assert question.prediction is not None
        answer = llm.generate(PROMPT.text, params=question.params, drafter="none")
        ids = [token for token in answer.token_ids if token not in llm.tokenizer.eos_ids]
        assert question.prediction != llm.tokenizer.decode(ids)
        assert question.prediction == llm.tokenizer.decode(nearly_right(ids, PROMPT.seed))
        predictions.append(question.prediction)
    assert predictions[0] != predictions[1]


def test_tenants_change_from_round_to_round(llm: LLM) -> None:
    repeated = plan(0.0, 0.8, rounds=2)
    questions = Questions(repeated, llm, plain_variant(llm))
    assert len({questions.of(group).tenant for group in repeated.groups()}) == 4


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


def test_the_float_stage_has_float_weights() -> None:
    with load_target(STAGES["float"], DEFAULT_MODEL, None) as llm:
        assert llm.engine.info.weights == "bf16"
        assert llm.checkpoint.quantization_summary().startswith("F32")


def test_the_script_goes_on_where_it_was(tmp_path: Path) -> None:
    prompts = tmp_path / "some.jsonl"
    prompts.write_text("".join(PROMPTS.read_text(encoding="utf-8").splitlines(True)[:2]))
    path = tmp_path / "out.json"
    arguments = ("--prompts", prompts, "--drafters", "ngram", "--max-tokens", 6, "--json", path)
    first = run_script("drafters", *arguments)
    assert first.returncode == 0, first.stderr
    assert "Times as fast as plain decoding" in first.stdout
    assert "[2/2]" in first.stderr
    report = json.loads(path.read_text())
    assert report["prompts"]["file"] == "some.jsonl"
    assert str(tmp_path) not in path.read_text()
    assert set(report["results"]["0 all"]) == {"plain", "ngram"}
    second = run_script("drafters", *arguments, "--rounds", 2)
    assert second.returncode == 0, second.stderr
    assert "[2/4]" not in second.stderr
    assert "[4/4]" in second.stderr
    again = json.loads(path.read_text())
    assert "Prompts of some.jsonl (SHA-256" in section(again)
    for prompt, rounds in again["samples"].items():
        assert [len(samples) for samples in rounds.values()] == [2, 2]
        assert rounds["ngram"][0] == report["samples"][prompt]["ngram"][0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "The stage default has no prompts of its own"),
        (("--prompts", PROMPTS, "--drafters", "ngram", "ngram"), "named twice"),
        (("--prompts", PROMPTS, "--drafters", "nothing"), "Unknown drafter 'nothing'"),
    ],
)
def test_errors_are_one_sentence(arguments: tuple[object, ...], complaint: str) -> None:
    done = run_script("drafters", *arguments)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
