"""Bodies become requests, or errors that name the parameter."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.server.errors import ApiError
from oneglance.server.parse import parse_body
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.common import SharedFields
from oneglance.server.schema.completions import CompletionRequest

USER = {"role": "user", "content": "Hello"}
CHAT = {"model": "m", "messages": [USER]}
COMPLETION = {"model": "m", "prompt": "Hello"}


def chat(**fields: Any) -> ChatRequest:
    return parse_body(ChatRequest, json.dumps(CHAT | fields).encode())


def completion(**fields: Any) -> CompletionRequest:
    return parse_body(CompletionRequest, json.dumps(COMPLETION | fields).encode())


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"temperature": "1"}, "temperature", "invalid_value"),
        ({"top_p": -0.1}, "top_p", "invalid_value"),
        ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": True}, "n", "invalid_value"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_value"),
        ({"seed": 2**63}, "seed", "invalid_value"),
        ({"stop": ["a", 5]}, "stop[1]", "invalid_value"),
        ({"stop": list("abcde")}, "stop", "invalid_value"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5", "invalid_value"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        (
            {"messages": [USER, {"role": "user"}]},
            "messages[1].content",
            "missing_required_parameter",
        ),
        ({"messages": [{"role": "poet", "content": "x"}]}, "messages[0]", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].type",
            "invalid_value",
        ),
        ({"messages": [USER | {"name": "Ann"}]}, "messages[0].name", "unknown_parameter"),
        ({"stream_options": {"include_obfuscation": True}}, None, None),
        ({"store": True}, "store", "invalid_value"),
        ({"functions": []}, "functions", "unsupported_parameter"),
        ({"colour": "red"}, "colour", "unknown_parameter"),
        ({"speculation": {"k": 0}}, "speculation.k", "invalid_value"),
        ({"speculation": {"off": True, "k": 2}}, "speculation", "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format", "invalid_value"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
            "response_format.json_schema.name",
            "invalid_value",
        ),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", None),
        ({"prediction": {"type": "content"}}, "prediction.content", "missing_required_parameter"),
    ],
)
def test_the_parameter_at_fault_is_named(
    fields: dict[str, Any], param: str | None, code: str | None
) -> None:
    with pytest.raises(ApiError) as caught:
        chat(**fields)
    assert caught.value.status == 400
    if param is not None:
        assert caught.value.param == param
        assert param in caught.value.message
    if code is not None:
        assert caught.value.code == code


@pytest.mark.parametrize("name", ["model", "messages"])
def test_what_is_missing_is_named(name: str) -> None:
    body = {key: value for key, value in CHAT.items() if key != name}
    with pytest.raises(ApiError) as caught:
        parse_body(ChatRequest, json.dumps(body).encode())
    assert (caught.value.param, caught.value.code) == (name, "missing_required_parameter")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"null",
        b"[1]",
        b'{"model": "m"',
        b"[" * 10_000,
        b'{"model": "\\ud800", "messages": []}',
        b'{"model": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_body(ChatRequest, body)
    assert caught.value.status == 400


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_are_finite(number: str) -> None:
    body = json.dumps(CHAT).replace('"m"', f'"m", "temperature": {number}')
    with pytest.raises(ApiError) as caught:
        parse_body(ChatRequest, body.encode())
    assert caught.value.param == "temperature"


def test_null_is_as_good_as_nothing() -> None:
    optional = set(ChatRequest.model_fields) - {"model", "messages"}
    assert chat(**dict.fromkeys(optional | ChatRequest.NOT_OFFERED)) == chat()


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_prompts_come_in_four_forms(prompt: Any, prompts: list[Any]) -> None:
    assert completion(prompt=prompt).prompts == prompts


@pytest.mark.parametrize("prompt", [[], [1, "a"], [[1], "a"], [-1], 5, None, [[1.5]]])
def test_other_prompts_are_refused(prompt: Any) -> None:
    with pytest.raises(ApiError) as caught:
        completion(prompt=prompt)
    assert (caught.value.param or "").startswith("prompt")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(
    kind=st.sampled_from([ChatRequest, CompletionRequest]),
    name=st.sampled_from(sorted({*ChatRequest.model_fields, *CompletionRequest.model_fields})),
    value=ANY_JSON,
)
def test_no_value_breaks_the_reading(kind: type[SharedFields], name: str, value: Any) -> None:
    body = (CHAT if kind is ChatRequest else COMPLETION) | {name: value}
    with suppress(ApiError):
        parse_body(kind, json.dumps(body).encode())
