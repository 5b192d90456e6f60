"""The checks of the server under load find what they are there for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.load.checks import (
    Assembled,
    assemble,
    check_answer,
    check_beginning,
    check_memory,
    check_pages,
    check_refusal,
)
from benchmarks.load.fuzz import check_response
from benchmarks.load.leaks import Held
from benchmarks.load.parts import held_problems
from benchmarks.load.questions import ExpectedAnswer

EXPECTED = ExpectedAnswer("one two three", (1, 2, 3), "length", 7)
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}


def event(text: str, *ids: int, reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"delta": {"content": text}, "finish_reason": reason}
    if ids:
        choice["speculation"] = {"tokens": [{"id": number} for number in ids]}
    return {"choices": [choice], **more}


STREAM = [
    event(""),
    event("one", 1),
    event(" two three", 2, 3),
    event("", reason="length"),
    {"choices": [], "usage": USAGE},
]


def problems(events: list[dict[str, Any]]) -> str:
    return "; ".join(check_answer(assemble(events), EXPECTED))


def test_a_right_stream_is_put_together() -> None:
    assert assemble(STREAM) == Assembled("one two three", (1, 2, 3), "length", (7, 3))
    assert problems(STREAM) == ""


def test_a_whole_answer_of_either_api_is_like_a_stream_of_one_event() -> None:
    chat = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": USAGE}
    completion = {"choices": [{"text": "x", "finish_reason": "stop"}], "usage": None}
    assert assemble([chat]) == Assembled("x", None, "stop", (7, 3))
    assert assemble([completion]) == Assembled("x", None, "stop", None)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([STREAM[0], *STREAM[2:]], "differs at character 0"),
        ([*STREAM[:2], *STREAM[1:]], "differs at character 3: …'oneone two three', not …'one two"),
        ([STREAM[0], event("one", 1, 1), *STREAM[2:]], r"the tokens are (1, 1, 2, 3)"),
        ([STREAM[0], event("one"), *STREAM[2:]], r"the tokens are (2, 3), not (1, 2, 3)"),
        (STREAM[:3], "it ended with None, not 'length'"),
        ([*STREAM[:3], event("", reason="stop")], "it ended with 'stop', not 'length'"),
        (
            [*STREAM[:4], {"choices": [], "usage": USAGE | {"completion_tokens": 4}}],
            "are said to have (7, 4) tokens, not (7, 3)",
        ),
    ],
)
def test_what_is_lost_or_comes_twice_is_found(events: list[dict[str, Any]], complaint: str) -> None:
    assert complaint in problems(events)


def test_an_event_of_another_shape_is_no_answer() -> None:
    with pytest.raises(KeyError):
        assemble([{"object": "chat.completion.chunk"}])


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        (STREAM[:2], ""),
        ([], ""),
        ([event("one twe")], "the beginning differs at character 6"),
        ([event("one", 2)], "the first tokens are (2,)"),
        ([event("one two three four")], "differs at character 13"),
    ],
)
def test_what_came_before_a_client_left_is_a_beginning(
    events: list[dict[str, Any]], complaint: str
) -> None:
    found = "; ".join(check_beginning(assemble(events), EXPECTED))
    assert complaint in found
    assert bool(complaint) is bool(found)


ERROR = json.dumps({"error": dict.fromkeys(("message", "type", "param", "code"), "x")}).encode()


@pytest.mark.parametrize(
    ("status", "content", "complaint"),
    [
        (400, ERROR, ""),
        (200, ERROR, "the status is 200"),
        (500, ERROR, "the status is 500"),
        (400, b'{"detail": "x"}', "no error object"),
        (400, b'{"error": "x"}', "no error object"),
        (400, b"[]", "no error object"),
        (400, b"<html>", "no error object"),
    ],
)
def test_refusals_have_openai_s_shape(status: int, content: bytes, complaint: str) -> None:
    found = "; ".join(check_refusal(status, content))
    assert complaint in found
    assert bool(complaint) is bool(found)


@pytest.mark.parametrize(
    ("status", "content", "is_right"),
    [
        (200, b"{}", True),
        (200, b"data: {}\n\ndata: [DONE]\n\n", True),
        (200, b"data: {}\n\n", False),
        (200, b"{", False),
        (422, ERROR, True),
        (500, ERROR, False),
    ],
)
def test_a_fuzzed_body_is_answered_or_refused(status: int, content: bytes, is_right: bool) -> None:
    assert (check_response(status, content) == []) is is_right


def test_a_page_that_is_lost_is_found() -> None:
    assert check_pages(9, 9, 400, 400) == []
    assert check_pages(9, 8, 400, 400) == []
    assert check_pages(9, 10, 400, 400) == ["10 pages are in use after the load, not 9"]
    assert check_pages(9, 9, 400, 401) == [
        "401 tokens of prefixes are kept after the load, not 400"
    ]


def test_a_request_that_never_ends_is_found() -> None:
    assert held_problems(Held(9, 400, 0), Held(9, 400, 0)) == []
    assert held_problems(Held(9, 400, 0), Held(9, 400, 2)) == ["2 requests are still in progress"]


def test_memory_that_grows_is_found() -> None:
    noise = [100_000, 101_000, 99_500] * 10
    assert check_memory(noise) == []
    assert check_memory([1000 + number for number in range(30)]) == []  # 2 % in all
    (problem,) = check_memory([1000 + 2 * number for number in range(30)])
    assert problem == "the memory of the process grew by 4.0%"
    assert check_memory([]) == ["the memory of the process was never seen"]
