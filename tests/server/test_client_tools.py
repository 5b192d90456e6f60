"""Tools and structured output through OpenAI's own client."""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel

from tests.server.asking import MODEL, RIVERS, Client, chat, stream, text_of

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather", "parameters": WEATHER},
    },
    {"type": "function", "function": {"name": "now"}},
]
ASKED: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the weather in Paris?"}
]
ONE_CALL: dict[str, Any] = {
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 60,
}
NOW = {"type": "function", "function": {"name": "now"}}


def ask(client: Client, **params: Any) -> Any:
    return chat(client, **{"messages": ASKED, "tools": TOOLS, "max_tokens": 32, **params})


def test_a_tool_is_called_with_its_arguments(client: Client) -> None:
    choice = ask(client, **ONE_CALL).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.id.startswith("call_")
    assert call.function.name in ("get_weather", "now")
    arguments = json.loads(call.function.arguments)
    if call.function.name == "get_weather":
        assert set(arguments) == {"city", "unit"}
        assert arguments["unit"] in "CF"


def test_the_tool_that_is_named_is_called(client: Client) -> None:
    (call,) = ask(client, tool_choice=NOW).choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("now", "{}")


@pytest.mark.parametrize("speculation", [{"off": True}, {"drafter": "ngram", "k": 3}])
def test_a_streamed_call_is_the_same(client: Client, speculation: dict[str, Any]) -> None:
    choice: dict[str, Any] = {
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 60,
    }
    (expected,) = ask(client, **choice).choices[0].message.tool_calls
    asked: dict[str, Any] = {"messages": ASKED, "tools": TOOLS, **ONE_CALL}
    streamed = stream(client, **asked, extra_body={"speculation": speculation})
    chunks = [each for chunk in streamed for each in chunk.choices]
    parts = [part for each in chunks for part in each.delta.tool_calls or ()]
    assert {part.index for part in parts} == {0}
    assert [bool(part.id) for part in parts] == [True] + [False] * (len(parts) - 1)
    functions = [part.function for part in parts if part.function is not None]
    assert functions[0].name == expected.function.name
    written = "".join(function.arguments or "" for function in functions)
    assert written == expected.function.arguments
    assert chunks[-1].finish_reason == "tool_calls"


def test_without_need_the_model_may_just_speak(client: Client) -> None:
    assert ask(client, max_tokens=8).choices[0].message.content
    spoken = ask(client, tool_choice="none", max_tokens=16)
    assert text_of(spoken) == text_of(chat(client, messages=ASKED, max_tokens=16))


def test_results_go_back_to_the_model(client: Client) -> None:
    first = ask(client, **ONE_CALL).choices[0].message
    turns = [
        *ASKED,
        first.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "21 C"},
    ]
    short: dict[str, Any] = {"tool_choice": "none", "max_tokens": 4}
    with_result = ask(client, messages=turns, **short)
    assert text_of(with_result)
    assert with_result.usage.prompt_tokens > ask(client, **short).usage.prompt_tokens


def test_a_call_that_is_cut_off_ends_by_length(client: Client) -> None:
    choice = ask(client, tool_choice="required", max_tokens=14).choices[0]
    assert choice.finish_reason == "length"


def test_json_obeys_its_schema(client: Client) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER}}
    choice = chat(client, messages=ASKED, response_format=wanted, max_tokens=60).choices[0]
    assert choice.finish_reason == "stop"
    assert set(json.loads(choice.message.content or "")) == {"city", "unit"}


def test_models_of_pydantic_are_parsed(client: Client) -> None:
    class River(BaseModel):
        longer_than_1000_km: bool
        ocean: Literal["Atlantic", "Pacific", "Indian"]

    answer = client.chat.completions.parse(
        model=MODEL, messages=RIVERS, response_format=River, max_tokens=60, temperature=0, seed=1
    )
    assert isinstance(answer.choices[0].message.parsed, River)


def test_any_object_is_an_object(client: Client) -> None:
    answer = text_of(chat(client, response_format={"type": "json_object"}, max_tokens=40))
    assert answer.lstrip().startswith("{")


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "fly"}}}, "tool_choice"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools[1].function.name"),
        ({"tools": None, "parallel_tool_calls": True}, "parallel_tool_calls"),
        ({"extra_body": {"min_tokens": 2}}, "min_tokens"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}
                ]
            },
            "tools[0].function.parameters.type",
        ),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": {"properties": {"a": {"type": 5}}}},
                    }
                ]
            },
            "tools",
        ),
        (
            {
                "tools": None,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"type": "strin"}},
                },
            },
            "response_format",
        ),
    ],
)
def test_what_cannot_be_done_is_named(client: Client, params: dict[str, Any], param: str) -> None:
    asked = {name: value for name, value in params.items() if value is not None}
    if "tools" in params and params["tools"] is None:
        asked = {"messages": ASKED, **asked}
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, **asked)
    else:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, **asked)
    assert caught.value.param == param
