"""Questions to a server through OpenAI's own client."""

from __future__ import annotations

from typing import Any

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam

from oneglance import SamplingParams

MODEL = "smollm2-135m"
RIVERS: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Name three rivers of Europe."}
]
COUNTING = "one two three four five one two three four five one two"
SEEDED = SamplingParams(max_tokens=12, temperature=0.8, top_p=0.9, seed=7)
Client = openai.OpenAI


def chat(client: Client, **params: Any) -> ChatCompletion:
    """Asks for rivers, greedily, unless told otherwise."""
    answer: ChatCompletion = client.chat.completions.create(**_asked(params))
    return answer


def stream(client: Client, **params: Any) -> list[ChatCompletionChunk]:
    """The same, streamed to its end."""
    return list(client.chat.completions.create(**_asked(params), stream=True))


def _asked(params: dict[str, Any]) -> Any:
    return {"model": MODEL, "messages": RIVERS, "max_tokens": 20, "temperature": 0, **params}


def text_of(answer: ChatCompletion, index: int = 0) -> str:
    """What one of the choices says."""
    text = answer.choices[index].message.content
    assert text is not None
    return text
