"""Where answers part, and what counts as a tie."""

from __future__ import annotations

import math

import pytest

from oneglance.audit.endpoint.answer import Answer, TokenInfo, parse_answer, parse_stream
from oneglance.audit.endpoint.compare import first_divergence, noise, tie_bound
from oneglance.audit.endpoint.connection import BrokenAnswerError, Stream

Row = tuple[str, dict[str, float]]


def answer(*rows: Row, finish_reason: str = "length") -> Answer:
    tokens = tuple(
        TokenInfo(text, top.get(text), tuple(sorted(top.items(), key=lambda pair: -pair[1])))
        for text, top in rows
    )
    return Answer("".join(text for text, _ in rows), finish_reason, tokens, len(rows), 3)


SAME: Row = ("a", {"a": -0.1, "b": -3.0})


def test_equal_answers_do_not_part() -> None:
    assert first_divergence(answer(SAME), answer(SAME), 0.02) is None


def test_a_tie_is_a_tie_by_both_answers() -> None:
    tie = {"a": -0.700, "b": -0.705}
    found = first_divergence(answer(SAME, ("a", tie)), answer(SAME, ("b", tie)), 0.02)
    assert found is not None
    assert (found.position, found.one, found.other, found.status) == (1, "a", "b", "near-tie")
    assert found.gap == pytest.approx(0.005)
    clear = {"a": -0.2, "b": -1.9}
    found = first_divergence(answer(SAME, ("a", tie)), answer(SAME, ("b", clear)), 0.02)
    assert found is not None
    assert found.status == "fault", "one answer calls it a tie, the other does not"
    assert "1.700 nats" in found.sentence()


def test_a_token_that_is_not_even_listed_is_no_tie() -> None:
    found = first_divergence(
        answer(("a", {"a": -0.1, "c": -2.0})), answer(("b", {"a": -0.1, "b": -0.11})), 0.02
    )
    assert found is not None
    assert found.gap == math.inf
    assert found.status == "fault"
    assert found.to_dict()["gap_nats"] is None


def test_without_logprobs_nobody_can_tell() -> None:
    bare = [Answer(text, "length", None, 2, 3) for text in ("ab", "ac")]
    found = first_divergence(bare[0], bare[1], 0.02)
    assert found is not None
    assert (found.position, found.status) == (1, "unclear")


def test_an_end_against_a_decided_token_is_a_fault() -> None:
    short = answer(SAME, finish_reason="stop")
    found = first_divergence(short, answer(SAME, ("b", {"b": -0.01, "c": -5.0})), 0.02)
    assert found is not None
    assert (found.one, found.status) == (None, "fault")
    tied = answer(SAME, ("b", {"b": -0.7, "</s>": -0.71}))
    found = first_divergence(short, tied, 0.02)
    assert found is not None
    assert found.status == "near-tie"


def test_penalties_count_where_the_gap_is_measured() -> None:
    row = {"a": -0.1, "b": -2.1}
    one, other = answer(SAME, ("a", row)), answer(SAME, ("b", row))
    found = first_divergence(one, other, 0.02, lambda before, token: -2.0 * before.count(token))
    assert found is not None
    assert found.status == "near-tie", "with its penalty a is as likely as b"


def test_noise_is_measured_where_prefixes_are_equal() -> None:
    one = answer(("a", {"a": -0.10}), ("b", {"b": -1.0}), ("c", {"c": -1.0}))
    other = answer(("a", {"a": -0.13}), ("b", {"b": -1.0}), ("d", {"d": -9.0}))
    assert noise([(one, other)]) == pytest.approx(0.03)
    assert tie_bound(0.03) == pytest.approx(0.06)
    assert tie_bound(0.0) == 0.02
    assert tie_bound(5.0) == 0.5


def test_both_forms_of_logprobs_are_read() -> None:
    legacy = {"tokens": ["x"], "token_logprobs": [-0.5], "top_logprobs": [{"x": -0.5, "y": -1}]}
    content = {
        "content": [
            {
                "token": "x",
                "logprob": -0.5,
                "top_logprobs": [{"token": "y", "logprob": -1}, {"token": "x", "logprob": -0.5}],
            }
        ]
    }
    usage = {"prompt_tokens": 2, "completion_tokens": 1}
    for body in (
        {"choices": [{"text": "x", "logprobs": legacy, "finish_reason": "stop"}], "usage": usage},
        {
            "choices": [
                {"message": {"content": "x"}, "logprobs": content, "finish_reason": "stop"}
            ],
            "usage": usage,
        },
    ):
        found = parse_answer(body)
        token = TokenInfo("x", -0.5, (("x", -0.5), ("y", -1.0)))
        assert found == Answer("x", "stop", (token,), 1, 2)
    with pytest.raises(BrokenAnswerError, match="shape"):
        parse_answer({"choices": []})


def test_streams_are_put_together() -> None:
    events = (
        {"choices": [{"delta": {"role": "assistant"}}]},
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": [{"delta": {"content": "b"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 2, "prompt_tokens": 1}},
    )
    found = parse_stream(Stream(events, True, None))
    assert found == Answer("ab", "stop", None, 2, 1)
    with pytest.raises(BrokenAnswerError, match="carries an error"):
        parse_stream(Stream(({"error": "out of memory"},), False, None))
