"""OpenAI's own client, unchanged, against a real server with the default model."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from openai.types.chat import ChatCompletionMessageParam

from oneglance import Completion
from tests.server.asking import COUNTING, MODEL, RIVERS, Client, chat, stream, text_of
from tests.server.running import Running

GREEDY_PARAMS = {"temperature": 0, "max_tokens": 20}
SEEDED_PARAMS = {"temperature": 0.8, "top_p": 0.9, "seed": 7, "max_tokens": 12}


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
    chunks = stream(client, logprobs=True, stream_options={"include_usage": True})
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
                params: Any = {"model": MODEL, "messages": RIVERS, "stream": True}
                params |= SEEDED_PARAMS if number % 2 else GREEDY_PARAMS
                pieces: Any = await client.chat.completions.create(**params)
                return "".join([c.choices[0].delta.content or "" async for c in pieces])

            return await asyncio.gather(*map(ask, range(8)))

    assert asyncio.run(ask_all()) == [alone["rivers"].text, alone["seeded"].text] * 4


def test_several_choices_differ_and_repeat(client: Client, alone: dict[str, Any]) -> None:
    params = {**SEEDED_PARAMS, "n": 3}
    answer = chat(client, **params)
    texts = [text_of(answer, index) for index in range(3)]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert texts[0] == alone["seeded"].text
    assert len(set(texts)) == 3
    assert [choice.message.content for choice in chat(client, **params).choices] == texts
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == alone["seeded"].prompt_tokens
    streamed = ["", "", ""]
    for chunk in stream(client, **params):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def test_negative_seeds_are_seeds(client: Client) -> None:
    texts = [text_of(chat(client, temperature=1, seed=seed, max_tokens=8)) for seed in (-1, -1, 1)]
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
    common: dict[str, Any] = {"model": MODEL, "max_tokens": 20, "temperature": 0}
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
        model=MODEL, prompt=COUNTING, max_tokens=20, temperature=0, logprobs=2
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


def test_half_a_character_is_never_sent(client: Client) -> None:
    streamed = client.completions.create(
        model=MODEL,
        prompt="🙂🙃😀🙂🙃😀🙂🙃😀🙂🙃😀🙂🙃",
        max_tokens=32,
        temperature=0,
        stream=True,
        extra_body={"speculation": {"drafter": "ngram", "k": 3}},
    )
    pieces = [piece.choices[0].text for piece in streamed]
    assert any(ord(letter) > 0xFFFF for letter in "".join(pieces)), "no emoji came"
    assert "\ufffd" not in "".join(pieces[:-2])


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
