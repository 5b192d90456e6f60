"""Errors as OpenAI's client reads them, and what else a client can look up."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest

from tests.server.asking import MODEL, RIVERS, Client, chat
from tests.server.running import Running


@pytest.mark.parametrize(
    ("params", "param", "code"),
    [
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"n": 17}, "n", None),
        ({"top_logprobs": 3}, "top_logprobs", None),
        ({"max_completion_tokens": 3}, "max_tokens", None),
        ({"stop": [""]}, "stop", None),
        ({"logit_bias": {"99999999": 1}}, "logit_bias", None),
        ({"logit_bias": {"a": 1}}, "logit_bias", None),
        ({"stream_options": {"include_usage": True}}, "stream_options", None),
        ({"extra_body": {"min_tokens": 21}}, "min_tokens", None),
        ({"extra_body": {"speculation": {"drafter": "draft:x"}}}, "speculation.drafter", None),
        (
            {
                "extra_body": {
                    "speculation": {"off": True},
                    "prediction": {"type": "content", "content": "a"},
                }
            },
            "prediction",
            None,
        ),
        (
            {"messages": [{"role": "user", "content": "word " * 9000}]},
            "messages",
            "context_length_exceeded",
        ),
        (
            {"messages": [{"role": "tool", "content": "1", "tool_call_id": "call_x"}]},
            "messages[0].tool_call_id",
            None,
        ),
        ({"messages": [{"role": "assistant"}]}, "messages[0].content", None),
    ],
)
def test_errors_name_the_parameter(
    client: Client, params: dict[str, Any], param: str, code: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **params)
    assert caught.value.param == param
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": [999_999]}, "prompt"),
        ({"prompt": ["a"] * 17}, "prompt"),
        ({"best_of": 3}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"suffix": "end"}, "suffix"),
    ],
)
def test_errors_of_completions_name_the_parameter(
    client: Client, params: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": MODEL, "prompt": "Hello", **params})
    assert caught.value.param == param


def test_a_refused_stream_is_an_error_not_a_stream(client: Client) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=MODEL, messages=RIVERS, n=17, stream=True)


def test_json_is_readable_by_anyone(running: Running) -> None:
    page = httpx2.get(f"{running.url}/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/completions", "/v1/models"} <= set(page["paths"])
    body = json.dumps(page)
    names = set(page["components"]["schemas"])
    assert all(ref.split('"')[0] in names for ref in body.split("#/components/schemas/")[1:])


def test_models_are_listed(client: Client) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object) == (MODEL, "model")
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4o")
    assert caught.value.code == "model_not_found"
