"""Questions to a server through OpenAI's own client."""

from __future__ import annotations

from typing import Any

import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

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
    answer: ChatCompletion = client.chat.completions.create(
        **{"model": MODEL, "messages": RIVERS, "max_tokens": 20, "temperature": 0, **params}
    )
    return answer


def text_of(answer: ChatCompletion, index: int = 0) -> str:
    """What one of the choices says."""
    text = answer.choices[index].message.content
    assert text is not None
    return text
