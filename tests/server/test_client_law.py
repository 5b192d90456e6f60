"""Parameters that bend the law, and speculation, which does not."""

from __future__ import annotations

from typing import Any

import pytest

from oneglance import Completion
from tests.server.asking import COUNTING, MODEL, Client, chat, stream, text_of


def test_a_prediction_is_accepted_and_counted(client: Client, alone: dict[str, Any]) -> None:
    text = alone["rivers"].text
    told: dict[str, Any] = {"speculation": {"drafter": "predicted", "k": 4}}
    answer = chat(client, prediction={"type": "content", "content": text}, extra_body=told)
    assert text_of(answer) == text
    assert answer.usage is not None
    details = answer.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens is not None
    assert details.accepted_prediction_tokens == 16
    wrong = [{"type": "text", "text": "Name three rivers. "}, {"type": "text", "text": text[:9]}]
    other = chat(client, prediction={"type": "content", "content": wrong})
    assert text_of(other) == text


@pytest.mark.parametrize(
    ("speculation", "drafter"),
    [
        ({"off": True}, "none"),
        ({"drafter": "ngram", "k": 2}, "ngram"),
        ({"drafter": "suffix", "k": 4, "tree": 8}, "suffix"),
        ({"drafter": "lookahead"}, "lookahead"),
        ({"k": 3}, "ngram"),
    ],
)
def test_speculation_changes_no_token(
    client: Client, alone: dict[str, Any], speculation: dict[str, Any], drafter: str
) -> None:
    told = {"speculation": {**speculation, "report": "tokens"}}
    answer = client.completions.create(
        model=MODEL, prompt=COUNTING, max_tokens=20, temperature=0, extra_body=told
    )
    expected: Completion = alone["counting"]
    assert answer.choices[0].text == expected.text
    found = answer.choices[0].model_extra or {}
    report = found["speculation"]
    assert report["drafter"] == drafter
    assert report["delivered"] == len(expected.tokens)
    assert tuple(token["id"] for token in report["tokens"]) == expected.token_ids
    accepted = [token for token in report["tokens"] if token["kind"] == "accepted"]
    assert len(accepted) == report["accepted"]
    assert all(token["drafter"] == drafter for token in accepted)
    assert (report["drafted"] > 0) is (drafter != "none")


def test_a_stream_tells_of_its_tokens(client: Client, alone: dict[str, Any]) -> None:
    chunks = stream(client, extra_body={"speculation": {"report": "tokens"}})
    told = [
        (choice.model_extra or {}).get("speculation", {})
        for chunk in chunks
        for choice in chunk.choices
    ]
    ids = [token["id"] for each in told for token in each.get("tokens", ())]
    assert tuple(ids) == alone["rivers"].token_ids
    assert [each["passes"] for each in told if "passes" in each] != []


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("biased", {"max_tokens": 4, "logit_bias": {"22": 100}}),
        ("penalised", {"max_tokens": 12, "presence_penalty": 1.5, "frequency_penalty": 0.5}),
    ],
)
def test_the_law_is_bent_as_asked(
    client: Client, alone: dict[str, Any], name: str, params: dict[str, Any]
) -> None:
    answer = client.completions.create(model=MODEL, prompt=COUNTING, temperature=0, **params)
    assert answer.choices[0].text == alone[name].text
    assert alone[name].text != alone["counting"].text[: len(alone[name].text)]


@pytest.mark.parametrize("body", [{"top_k": 1}, {"min_p": 1.0}, {"top_p": 0.0}])
def test_one_token_left_is_the_greedy_one(
    client: Client, alone: dict[str, Any], body: dict[str, float]
) -> None:
    answer = chat(client, temperature=2, extra_body=body)
    assert text_of(answer) == alone["rivers"].text


def test_other_extensions_reach_the_law(client: Client) -> None:
    text = text_of(chat(client, max_tokens=20, extra_body={"repetition_penalty": 1.8}))
    assert text != text_of(chat(client))
    long = chat(client, max_tokens=30, extra_body={"ignore_eos": True, "min_tokens": 30})
    assert long.usage is not None
    assert long.usage.completion_tokens == 30
