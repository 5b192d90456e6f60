"""One streamed answer: how a server is asked for it, and when its parts came."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.load.own_server import SERVED_NAME
from oneglance.bench.http_json import NoAnswerError, stream_json

ANSWER_SECONDS = 1800.0
"""Of silence, after which a server counts as gone."""


@dataclass(frozen=True)
class Item:
    """What is asked.

    Attributes:
        id: of the prompt.
        text: the user's message.
        token_ids: the prompt as the model gets it.
        repetition: how often this prompt was asked before in the same run.
    """

    id: str
    text: str
    token_ids: tuple[int, ...]
    repetition: int = 0


@dataclass(frozen=True)
class Part:
    """What an event of a stream says.

    Attributes:
        text: the next text of the answer.
        tokens: of the whole answer, where this event tells.
        is_last: no event comes after it.
    """

    text: str
    tokens: int | None = None
    is_last: bool = False


@dataclass(frozen=True)
class Streamed:
    """An answer and its times.

    Attributes:
        text: the answer.
        tokens: how many it has.
        first_seconds: from the request to the first text.
        last_seconds: from the request to the last text.
    """

    text: str
    tokens: int
    first_seconds: float
    last_seconds: float

    @property
    def seconds_per_token(self) -> float | None:
        """Of the tokens after the first; None where there are none."""
        if self.tokens < 2:
            return None
        return (self.last_seconds - self.first_seconds) / (self.tokens - 1)


class Wire(Protocol):
    """How a server is asked, and how its events are read."""

    @property
    def url(self) -> str:
        """Where requests go."""

    def body(self, item: Item, max_tokens: int) -> dict[str, Any]:
        """A greedy request."""

    def headers(self, item: Item) -> dict[str, str]:
        """Of a request, besides the type of its content."""

    def read(self, event: Mapping[str, Any]) -> Part:
        """What an event says."""


@dataclass(frozen=True)
class ChatWire:
    """OpenAI's protocol, as our server speaks it.

    Attributes:
        base: where the server listens.
        keys: the API key for each repetition of a prompt, so that no request finds the prompt of
            another, or its answer, in what the server keeps; without any, none is sent.
        speculation: our extension of the protocol; None: what the server does by itself.
    """

    base: str
    keys: tuple[str, ...] = ()
    speculation: Mapping[str, Any] | None = None

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.base}/v1/chat/completions"

    def body(self, item: Item, max_tokens: int) -> dict[str, Any]:
        """A greedy request."""
        body = {
            "model": SERVED_NAME,
            "messages": [{"role": "user", "content": item.text}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body if self.speculation is None else {**body, "speculation": self.speculation}

    def headers(self, item: Item) -> dict[str, str]:
        """The key of a client of its own."""
        if not self.keys:
            return {}
        return {"Authorization": f"Bearer {self.keys[item.repetition]}"}

    def read(self, event: Mapping[str, Any]) -> Part:
        """The next text, or the usage, which comes last; the stream says when it ends."""
        usage = event.get("usage")
        text = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        return Part(text, None if usage is None else usage["completion_tokens"])


@dataclass(frozen=True)
class LlamaWire:
    """llama.cpp's own protocol: the prompt as token ids, and no use of what it keeps of others."""

    base: str

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.base}/completion"

    def body(self, item: Item, max_tokens: int) -> dict[str, Any]:
        """A greedy request."""
        return {
            "prompt": list(item.token_ids),
            "n_predict": max_tokens,
            "temperature": 0,
            "cache_prompt": False,
            "stream": True,
        }

    def headers(self, item: Item) -> dict[str, str]:  # noqa: ARG002 - as every wire
        """None besides the usual ones."""
        return {}

    def read(self, event: Mapping[str, Any]) -> Part:
        """The next text; the event that stops tells the number of tokens."""
        return Part(event["content"], event.get("tokens_predicted"), event["stop"])


def stream_answer(wire: Wire, item: Item, max_tokens: int) -> Streamed:
    """Asks, and reads the answer to its end.

    Raises:
        NoAnswerError: the server failed, or does not say how many tokens there are.
    """
    texts: list[str] = []
    started, first, last, tokens = time.perf_counter(), None, 0.0, None
    body, headers = wire.body(item, max_tokens), wire.headers(item)
    with closing(stream_json(wire.url, body, ANSWER_SECONDS, headers)) as events:
        for event in events:
            try:
                part = wire.read(event)
            except (KeyError, TypeError):
                raise NoAnswerError(f"its stream has an event of another shape: {event}") from None
            if part.text:
                last = time.perf_counter() - started
                first = last if first is None else first
                texts.append(part.text)
            tokens = part.tokens or tokens
            if part.is_last:
                break
    if tokens is None:
        raise NoAnswerError("its stream does not say how many tokens it has")
    # An answer may be nothing but its end.
    end = time.perf_counter() - started
    return Streamed("".join(texts), tokens, end if first is None else first, last or end)
