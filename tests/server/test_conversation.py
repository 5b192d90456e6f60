"""Messages and tools reach the model in the form that its template knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oneglance.server.errors import ApiError
from oneglance.server.parse import parse_body
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.tools.conversation import knows_calls, template_messages

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}
TOOL = {"type": "function", "function": {"name": "f", "description": "Does it."}}
TURNS: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Do "}, {"type": "text", "text": "it."}]},
    {"role": "assistant", "content": "Now:", "tool_calls": [CALL, CALL | {"id": "call_2"}]},
    {"role": "tool", "tool_call_id": "call_2", "content": "two"},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "one"}]},
    {"role": "user", "content": "Thanks."},
]


def calling(arguments: str) -> dict[str, Any]:
    call = CALL | {"function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def rendered(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]], is_native: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    body = {"model": "m", "messages": messages, "tools": tools}
    request = parse_body(ChatRequest, json.dumps(body).encode())
    return template_messages(request.messages, request.tools or [], is_native)


def test_a_template_with_a_place_for_tools_gets_them() -> None:
    messages, tools = rendered(TURNS, [TOOL], is_native=True)
    assert tools == [TOOL]
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "tool", "user")
    ]
    assert messages[1]["content"] == "Do it."
    function = messages[2]["tool_calls"][0]["function"]
    assert function == {"name": "f", "arguments": {"a": "é"}}
    assert messages[4] == {"role": "tool", "content": "one", "tool_call_id": "call_1"}


def test_any_other_template_gets_them_as_text() -> None:
    messages, tools = rendered(TURNS, [TOOL], is_native=False)
    assert tools == []
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "user",
    ]
    assert messages[0]["content"].startswith("Be brief.\n\nYou can call these functions")
    assert json.dumps(TOOL["function"]) in messages[0]["content"]
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'
    assert messages[2]["content"] == f"Now:\n{call}\n{call}"
    assert messages[3]["content"] == (
        "<tool_response>\ntwo\n</tool_response>\n<tool_response>\none\n</tool_response>"
    )


def test_tools_come_first_where_nothing_else_does() -> None:
    messages, _ = rendered(TURNS[1:2], [TOOL], is_native=False)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert rendered(TURNS[1:2], [], is_native=False)[0] == [{"role": "user", "content": "Do it."}]


@pytest.mark.parametrize(
    ("source", "is_known"),
    [
        ("{% if tools %}<tool_call>{% endif %}", True),
        ("{% for message in messages %}{% endfor %}", False),
        ("{% if tools %}[TOOL_CALLS]{% endif %}", False),
        ("{% if tools %}<tool_call><function=f>{% endif %}", False),
    ],
)
def test_only_calls_of_the_known_form_are_left_to_the_template(source: str, is_known: bool) -> None:
    assert knows_calls(source) is is_known


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([TURNS[1], TURNS[3]], "messages[1].tool_call_id"),
        ([{"role": "assistant"}], "messages[0].content"),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [CALL | {"function": {"name": "f", "arguments": "[1]"}}],
                }
            ],
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [CALL | {"function": {"name": "f", "arguments": "{"}}],
                }
            ],
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)
@pytest.mark.parametrize("is_native", [True, False])
def test_what_makes_no_sense_is_refused(
    messages: list[dict[str, Any]], param: str, is_native: bool
) -> None:
    with pytest.raises(ApiError) as caught:
        rendered(messages, [], is_native)
    assert caught.value.param == param
