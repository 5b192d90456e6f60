"""Constrained answers of the default model: they are what was asked for, whoever drafts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.partial_models import without_layers

from oneglance import LLM, Completion, Constraint, SamplingParams, load
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.engine.factory import make_engine
from oneglance.errors import ParameterError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "product_name": {"type": "string", "maxLength": 20},
        "price_in_euros": {"type": "integer", "minimum": 1, "maximum": 999},
        "availability": {"enum": ["in stock", "sold out"]},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2},
    },
    "required": ["product_name", "price_in_euros", "availability", "tags"],
    "additionalProperties": False,
}
ONE_LINE = {"x-guidance": {"whitespace_flexible": False}, **SCHEMA}
PROMPT = "Describe a lamp of your shop as JSON."

CONSTRAINTS = {
    "schema": (Constraint.json_schema(SCHEMA), PROMPT),
    "one line": (Constraint.json_schema(ONE_LINE), PROMPT),
    "regex": (Constraint.regex(r"Answer: (yes|no), because [a-z ]{5,30}\."), "Is the sky blue?"),
    "grammar": (
        Constraint.grammar(
            'start: item ("," item){0,3}\nitem: "x" NUMBER "=" NUMBER\nNUMBER: /[0-9]/'
        ),
        "Give values to x1, x2 and x3.",
    ),
    "choices": (Constraint.choices(["Paris", "Zürich", "São Paulo"]), "Name a town in Brazil."),
}
LAWS = {"greedy": SamplingParams(), "seeded": SamplingParams(temperature=0.9, top_p=0.95, seed=7)}
DRAFTS = [
    ("grammar", "greedy", None),
    ("grammar", "seeded", None),
    ("ngram", "greedy", None),
    ("suffix+ngram", "seeded", 10),
    ("part", "greedy", 10),
]
"""Who drafts, for which requests, in chains or in trees of so many nodes. All others are in
`test_every_drafter.py`."""


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with load(drafter="none") as llm:
        yield llm


def named(llm: LLM, name: str) -> str | Drafter[Any]:
    if name != "part":
        return name
    part = without_layers(llm.checkpoint, {10, 18})
    return DraftModelDrafter(make_engine(part.config, part.weights), llm.tokenizer.vocab_size)


def requests(law: str) -> list[SamplingParams]:
    """One for each constraint, and a free one among them."""
    base = replace(LAWS[law], max_tokens=80)
    constrained = [replace(base, constraint=constraint) for constraint, _ in CONSTRAINTS.values()]
    return [*constrained[:2], replace(base, max_tokens=20), *constrained[2:]]


PROMPTS = [prompt for _, prompt in CONSTRAINTS.values()]
PROMPTS.insert(2, "Name the capital of France.")


@pytest.fixture(scope="module")
def plain(llm: LLM) -> dict[str, list[Completion]]:
    return {law: llm.batch(PROMPTS, params=requests(law), drafter="none") for law in LAWS}


def is_valid(text: str) -> bool:
    lamp = json.loads(text)
    return (
        list(lamp) == list(SCHEMA["properties"])
        and isinstance(lamp["product_name"], str)
        and len(lamp["product_name"]) <= 20
        and isinstance(lamp["price_in_euros"], int)
        and 1 <= lamp["price_in_euros"] <= 999
        and lamp["availability"] in ("in stock", "sold out")
        and len(lamp["tags"]) <= 2
        and set(lamp["tags"]) <= {"red", "green"}
    )


@pytest.mark.parametrize("law", LAWS)
def test_answers_are_what_was_asked_for(plain: dict[str, list[Completion]], law: str) -> None:
    flexible, one_line, free, regex, grammar, choice = plain[law]
    ended = (flexible, one_line, regex, grammar, choice)
    assert {each.finish_reason for each in ended} == {"stop"}
    assert is_valid(flexible.text)
    assert is_valid(one_line.text)
    assert "\n" not in one_line.text
    assert re.fullmatch(r"Answer: (yes|no), because [a-z ]{5,30}\.", regex.text)
    assert re.fullmatch(r"x\d=\d(,x\d=\d){0,3}", grammar.text)
    assert choice.text in ("Paris", "Zürich", "São Paulo")
    assert free.text


@pytest.mark.parametrize(("name", "law", "tree_nodes"), DRAFTS)
def test_drafts_change_no_token_and_no_bit(
    llm: LLM, plain: dict[str, list[Completion]], name: str, law: str, tree_nodes: int | None
) -> None:
    answers = llm.batch(
        PROMPTS, params=requests(law), drafter=named(llm, name), k=4, tree_nodes=tree_nodes
    )
    for answer, expected in zip(answers, plain[law], strict=True):
        assert [(t.token_id, t.logprob) for t in answer.tokens] == [
            (t.token_id, t.logprob) for t in expected.tokens
        ]
        assert answer.finish_reason == expected.finish_reason
    assert sum(answer.stats.passes for answer in answers) < sum(
        answer.stats.passes for answer in plain[law]
    )


def test_certain_tokens_cost_no_pass(llm: LLM, plain: dict[str, list[Completion]]) -> None:
    """At least one in three on one line, where the names and the marks between are certain."""
    answers = llm.batch(PROMPTS, params=requests("greedy"), drafter="grammar")
    one_line, choice = answers[1], answers[5]
    certain = [token for token in one_line.tokens if token.drafter == "grammar"]
    assert len(certain) == one_line.stats.accepted == one_line.stats.drafted
    assert one_line.stats.mean_accepted_length > 1.5
    assert choice.stats.passes < len(choice.tokens)
    assert {token.drafter for token in plain["greedy"][1].tokens} == {None}


def test_what_is_certain_is_not_counted_as_a_rejected_prediction(llm: LLM) -> None:
    answer = llm.generate(
        "Name it.", regex="Name: (one|two) lamps", prediction="Name: one", drafter="grammar", k=2
    )
    usage = answer.prediction_usage
    assert usage is not None
    predicted = sum(token.drafter == "predicted" for token in answer.tokens)
    certain = sum(token.drafter == "grammar" for token in answer.tokens)
    assert usage.accepted == predicted > 0
    assert certain > 0
    assert usage.accepted + usage.rejected + certain == answer.stats.drafted


def test_named_arguments_constrain_a_stream_too(llm: LLM) -> None:
    pieces = list(llm.stream("Is water wet?", choices=["yes", "no"], drafter="ngram"))
    assert "".join(map(str, pieces)) in ("yes", "no")
    answer = llm.generate("Count.", regex="1, 2, 3, 4", drafter="auto", temperature=1.0)
    assert answer.text == "1, 2, 3, 4"


def test_what_cannot_be_enforced_is_refused_before_any_work(llm: LLM) -> None:
    with pytest.raises(ParameterError, match="uniqueItems"):
        llm.stream(PROMPT, json_schema={"type": "array", "uniqueItems": True})
    with pytest.raises(ParameterError, match="regex cannot be used"):
        llm.batch([PROMPT, PROMPT], regex="(a")
