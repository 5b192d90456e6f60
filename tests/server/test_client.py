"""OpenAI's own client, unchanged, against a real server with the default model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

from oneglance import Completion, SamplingParams, load
from tests.server.running import Running, serving

MODEL = "smollm2-135m"
RIVERS: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Name three rivers of Europe."}
]
COUNTING = "one two three four five one two three four five one two"
SEEDED = SamplingParams(max_tokens=16, temperature=0.8, top_p=0.9, seed=7)
Client = openai.OpenAI


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """Answers of the library to single prompts, and the model that gave them."""
    llm = load(MODEL, "ngram")
    rivers = [dict(message) for message in RIVERS]
    return {
        "llm": llm,
        "rivers": llm.generate(rivers, max_tokens=24, top_logprobs=3),  # type: ignore[arg-type]
        "seeded": llm.generate(rivers, params=SEEDED),  # type: ignore[arg-type]
        "counting": llm.generate(COUNTING, raw=True, max_tokens=24, top_logprobs=2),
        "biased": llm.generate(COUNTING, raw=True, max_tokens=4, logit_bias={22: 100.0}),
        "penalised": llm.generate(
            COUNTING, raw=True, max_tokens=16, presence_penalty=1.5, frequency_penalty=0.5
        ),
    }


@pytest.fixture(scope="module")
def running(alone: dict[str, Any]) -> Iterator[Running]:
    with serving(alone["llm"]) as running:
        yield running


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[Client]:
    with Client(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def chat(client: Client, **params: Any) -> ChatCompletion:
    answer: ChatCompletion = client.chat.completions.create(
        **{"model": MODEL, "messages": RIVERS, "max_tokens": 24, "temperature": 0, **params}
    )
    return answer


def text_of(answer: ChatCompletion, index: int = 0) -> str:
    text = answer.choices[index].message.content
    assert text is not None
    return text


def test_a_chat_is_answered_as_by_the_library(client: Client, alone: dict[str, Any]) -> None:
    expected: Completion = alone["rivers"]
    answer = chat(client)
    assert text_of(answer) == expected.text
    assert answer.choices[0].finish_reason == expected.finish_reason
    assert answer.choices[0].message.role == "assistant"
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.system_fingerprint
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == expected.prompt_tokens
    assert answer.usage.completion_tokens == len(expected.tokens)
    assert answer._request_id


def test_a_stream_delivers_the_same_once(client: Client, alone: dict[str, Any]) -> None:
    expected: Completion = alone["rivers"]
    stream = client.chat.completions.create(
        model=MODEL,
        messages=RIVERS,
        max_completion_tokens=24,
        temperature=0,
        logprobs=True,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == expected.text
    tokens = [t for c in choices if c.logprobs is not None for t in c.logprobs.content or ()]
    assert [t.logprob for t in tokens] == [t.logprob for t in expected.tokens]
    assert [choice.finish_reason for choice in choices][-1] == expected.finish_reason
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(expected.tokens)


def test_concurrent_clients_get_what_each_would_get_alone(
    running: Running, alone: dict[str, Any]
) -> None:
    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="unused", max_retries=0
        ) as client:

            async def ask(number: int) -> str:
                seeded: dict[str, Any] = {"temperature": 0.8, "top_p": 0.9, "seed": 7}
                params = seeded | {"max_tokens": 16} if number % 2 else {"max_tokens": 24}
                stream = await client.chat.completions.create(
                    **{"model": MODEL, "messages": RIVERS, "temperature": 0, **params}, stream=True
                )
                return "".join(
                    [c.choices[0].delta.content or "" async for c in stream if c.choices]
                )

            return await asyncio.gather(*map(ask, range(8)))

    assert asyncio.run(ask_all()) == [alone["rivers"].text, alone["seeded"].text] * 4


def test_several_choices_differ_and_repeat(client: Client, alone: dict[str, Any]) -> None:
    params = {"temperature": 0.8, "top_p": 0.9, "seed": 7, "max_tokens": 16, "n": 3}
    answer = chat(client, **params)
    texts = [text_of(answer, index) for index in range(3)]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert texts[0] == alone["seeded"].text
    assert len(set(texts)) == 3
    assert [choice.message.content for choice in chat(client, **params).choices] == texts
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == alone["seeded"].prompt_tokens
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(
        **{"model": MODEL, "messages": RIVERS, **params}, stream=True
    ):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def test_negative_seeds_are_seeds(client: Client) -> None:
    texts = [text_of(chat(client, temperature=1, seed=seed)) for seed in (-1, -1, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_logprobs_are_those_of_the_library(client: Client, alone: dict[str, Any]) -> None:
    expected: Completion = alone["rivers"]
    found = chat(client, logprobs=True, top_logprobs=3).choices[0].logprobs
    assert found is not None
    assert found.content is not None
    assert [entry.logprob for entry in found.content] == [t.logprob for t in expected.tokens]
    assert [[top.logprob for top in entry.top_logprobs] for entry in found.content] == [
        [logprob for _, logprob in token.top_logprobs] for token in expected.tokens
    ]
    data = b"".join(bytes(entry.bytes or ()) for entry in found.content)
    assert data.decode() == expected.text


def test_stop_strings_end_answers_unshown(client: Client, alone: dict[str, Any]) -> None:
    text = alone["rivers"].text
    stop = text[10:14]
    assert text.count(stop) >= 1
    for form in (stop, ["never seen", stop]):
        answer = chat(client, stop=form)
        assert text_of(answer) == text[: text.index(stop)]
        assert answer.choices[0].finish_reason == "stop"


def test_completions_continue_texts_and_tokens(client: Client, alone: dict[str, Any]) -> None:
    expected: Completion = alone["counting"]
    tokens = alone["llm"].tokenizer.encode(COUNTING)
    common: dict[str, Any] = {"model": MODEL, "max_tokens": 24, "temperature": 0}
    answer = client.completions.create(prompt=[COUNTING, COUNTING], **common)
    assert [choice.text for choice in answer.choices] == [expected.text] * 2
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 2 * expected.prompt_tokens
    by_tokens = client.completions.create(prompt=tokens, echo=True, logprobs=None, **common)
    assert by_tokens.choices[0].text == COUNTING + expected.text
    pieces = client.completions.create(prompt=COUNTING, echo=True, stream=True, **common)
    assert "".join(piece.choices[0].text for piece in pieces) == COUNTING + expected.text


def test_completions_show_logprobs_and_offsets(client: Client, alone: dict[str, Any]) -> None:
    expected: Completion = alone["counting"]
    answer = client.completions.create(
        model=MODEL, prompt=COUNTING, max_tokens=24, temperature=0, logprobs=2
    )
    found = answer.choices[0].logprobs
    assert found is not None
    assert found.token_logprobs == [token.logprob for token in expected.tokens]
    assert found.tokens is not None
    assert found.text_offset is not None
    for token, offset in zip(found.tokens, found.text_offset, strict=True):
        assert expected.text[offset:].startswith(token) or token.startswith("<|")
    assert found.top_logprobs is not None
    assert all(len(top) in (2, 3) for top in found.top_logprobs)


def test_sixteen_tokens_are_the_default_of_completions(client: Client) -> None:
    answer = client.completions.create(model=MODEL, prompt=COUNTING, temperature=0)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("biased", {"max_tokens": 4, "logit_bias": {"22": 100}}),
        ("penalised", {"max_tokens": 16, "presence_penalty": 1.5, "frequency_penalty": 0.5}),
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
    text = text_of(chat(client, max_tokens=24, extra_body={"repetition_penalty": 1.8}))
    assert text != text_of(chat(client))
    long = chat(client, max_tokens=60, extra_body={"ignore_eos": True, "min_tokens": 60})
    assert long.usage is not None
    assert long.usage.completion_tokens == 60


def test_a_prediction_is_accepted_and_counted(client: Client, alone: dict[str, Any]) -> None:
    text = alone["rivers"].text
    answer = chat(client, prediction={"type": "content", "content": text})
    assert text_of(answer) == text
    assert answer.usage is not None
    details = answer.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens is not None
    assert details.accepted_prediction_tokens > 12
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
        model=MODEL, prompt=COUNTING, max_tokens=24, temperature=0, extra_body=told
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
    stream = client.chat.completions.create(
        model=MODEL,
        messages=RIVERS,
        max_tokens=24,
        temperature=0,
        stream=True,
        extra_body={"speculation": {"report": "tokens"}},
    )
    told = [
        (choice.model_extra or {}).get("speculation", {})
        for chunk in stream
        for choice in chunk.choices
    ]
    ids = [token["id"] for each in told for token in each.get("tokens", ())]
    assert tuple(ids) == alone["rivers"].token_ids
    assert [each["passes"] for each in told if "passes" in each] != []


def test_half_a_character_is_never_sent(client: Client) -> None:
    stream = client.completions.create(
        model=MODEL,
        prompt="🙂🙃😀🙂🙃😀🙂🙃😀🙂🙃😀🙂🙃",
        max_tokens=32,
        temperature=0,
        stream=True,
        extra_body={"speculation": {"drafter": "ngram", "k": 3}},
    )
    pieces = [piece.choices[0].text for piece in stream]
    assert any(ord(letter) > 0xFFFF for letter in "".join(pieces)), "no emoji came"
    assert "\ufffd" not in "".join(pieces[:-2])


def test_models_are_listed(client: Client) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object) == (MODEL, "model")
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4o")
    assert caught.value.code == "model_not_found"


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
        ({"extra_body": {"min_tokens": 25}}, "min_tokens", None),
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


def test_conversations_go_on(client: Client, alone: dict[str, Any]) -> None:
    turns: list[ChatCompletionMessageParam] = [
        {"role": "developer", "content": "Answer in English."},
        *RIVERS,
        {"role": "assistant", "content": alone["rivers"].text},
        {
            "role": "user",
            "content": [{"type": "text", "text": "And one "}, {"type": "text", "text": "more."}],
        },
    ]
    answer = chat(client, messages=turns)
    system = [dict(turn) for turn in turns]
    system[0]["role"], system[-1]["content"] = "system", "And one more."
    assert text_of(chat(client, messages=system)) == text_of(answer)


def test_json_is_readable_by_anyone(running: Running) -> None:
    import httpx2

    page = httpx2.get(f"{running.url}/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/completions", "/v1/models"} <= set(page["paths"])
    body = json.dumps(page)
    names = set(page["components"]["schemas"])
    assert all(ref.split('"')[0] in names for ref in body.split("#/components/schemas/")[1:])
