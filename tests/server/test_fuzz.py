"""Bodies of any kind get an answer or an error that OpenAI's clients can read, never a fault."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oneglance.llm import LLM
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.completions import CompletionRequest
from tests.server.plain import NAME, SETTINGS, error_of, events_of
from tests.server.running import Running, serving, wait_until

NUMBERS = st.sampled_from([0, 1, 2, -1, 5, 2**31, 2**63, 2**70, -(2**63), 0.5, 1.5, 5e-324, 1e308])
WORDS = st.sampled_from(
    ["", "a", "é🙂", "text", "json_object", "auto", "none", "ngram", "user", "<|im_end|>", "\0"]
)
NAMES = st.sampled_from(["type", "role", "content", "name", "schema", "function", "k", "5", "x"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.sampled_from(
    [{"type": "object"}, {"enum": ["a"]}, {"type": "x"}, {"pattern": "["}, {"$ref": "#/x"}, {}]
)
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "messages": st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["system", "user", "assistant", "tool"]),
                "content": st.sampled_from(["hi", None, "<|im_end|>", "\ue000"]),
            }
        ),
        max_size=3,
    ),
    "prompt": st.sampled_from(["hello", "", [1, 2], [[1], [2]], ["a", "b"], [10**9]]),
    "tools": SCHEMAS.map(
        lambda schema: [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    ),
    "response_format": SCHEMAS.map(
        lambda schema: {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    ),
    "speculation": st.fixed_dictionaries(
        {
            "drafter": st.sampled_from(["ngram", "none", "suffix", "lookahead", "predicted", "x"]),
            "k": st.sampled_from([None, 1, 1000, "auto"]),
            "report": st.sampled_from([None, "figures", "tokens"]),
        }
    ),
    "prediction": WORDS.map(lambda text: {"type": "content", "content": text}),
    "stop": st.sampled_from(["e", ["a"], [""], ""]),
    "n": st.sampled_from([1, 2, 17]),
    "stream": st.just(True),
    "logprobs": st.sampled_from([True, 3]),
    "top_logprobs": st.just(2),
    "temperature": st.sampled_from([0, 1, 2, 1e-300]),
    "seed": st.just(-3),
}
PATHS = ["chat/completions", "completions", "oneglance/trace", "oneglance/race"]
FIELDS = sorted({*ChatRequest.model_fields, *CompletionRequest.model_fields, "functions", "x"})


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path and a body, mostly one that could be in order, at times broken JSON."""
    path = draw(st.sampled_from(PATHS))
    is_chat = path != "completions"
    body: dict[str, Any] = {"model": NAME, "max_tokens": 4}
    body |= {"messages": [{"role": "user", "content": "hi"}]} if is_chat else {"prompt": "hi"}
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=3, unique=True)):
        body[name] = draw(LIKELY.get(name, ANYTHING) | ANYTHING)
    data = bytearray(json.dumps(body).encode())
    if draw(st.integers(0, 9)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return path, bytes(data)


def check(running: Running, client: httpx2.Client, asked: tuple[str, bytes]) -> None:
    path, data = asked
    response = client.post(f"{running.url}/v1/{path}", content=data, timeout=60)
    if response.status_code != 200:
        assert response.status_code in (400, 404), response.text
        assert error_of(response)["message"]
    elif response.headers["content-type"].startswith("text/event-stream"):
        *events, last = events_of(response.text)
        assert last == "[DONE]"
        assert all("error" not in json.loads(event) for event in events)
    else:
        assert response.json()["choices"]


@pytest.mark.parametrize(
    "num_bodies", [60, pytest.param(10_000, marks=pytest.mark.slow, id="ten thousand")]
)
def test_no_body_is_answered_with_a_fault(slow_llm: LLM, num_bodies: int) -> None:
    options = settings(
        max_examples=num_bodies,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    limits = SETTINGS.model_copy(update={"max_output_tokens": 4})
    with serving(slow_llm, limits) as running, httpx2.Client(verify=False) as client:
        options(given(requests())(lambda asked: check(running, client, asked)))()
        wait_until(lambda: running.num_running == 0)
