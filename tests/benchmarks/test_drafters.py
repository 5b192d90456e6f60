"""The stages of the drafters' benchmark, on the real default model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.drafters_prediction import OwnAnswerQuestions, nearly_right
from benchmarks.drafters_stages import STAGES, load_target
from oneglance.bench.measure import Questions
from oneglance.bench.plan import Plan
from oneglance.bench.prompts import BenchPrompt
from oneglance.bench.variant import plain_variant
from oneglance.llm import DEFAULT_MODEL
from tests.benchmarks.test_scripts import run_script
from tests.docs.documents import ROOT
from tests.docs.drafters import section

PROMPT = BenchPrompt("p", "qa", "Repeat three times: one two three four five.")
PROMPTS = ROOT / "tests" / "data" / "prompts.jsonl"


def test_the_own_answer_is_predicted_with_changes() -> None:
    plan = Plan((PROMPT,), (0.0, 0.8), rounds=1, max_tokens=24)
    predictions = []
    with load_target(STAGES["prediction"], DEFAULT_MODEL, None) as llm:
        ask = Questions(plan, llm.encode)
        questions = OwnAnswerQuestions(ask, plain_variant(llm), llm.tokenizer)
        for group in plan.groups():
            question = questions(group)
            assert question.prediction is not None
            assert replace(question, prediction=None) == ask(group)
            answer = llm.generate(PROMPT.text, params=question.params, drafter="none")
            ids = [token for token in answer.token_ids if token not in llm.tokenizer.eos_ids]
            assert question.prediction != llm.tokenizer.decode(ids)
            assert question.prediction == llm.tokenizer.decode(nearly_right(ids, PROMPT.seed))
            predictions.append(question.prediction)
    assert predictions[0] != predictions[1]


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
