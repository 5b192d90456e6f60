"""Answers in OpenAI's shapes: whole, or as the chunks of a stream."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from oneglance.completion import Completion
from oneglance.server.admit import Admitted
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.common import SharedFields
from oneglance.server.schema.completions import CompletionRequest
from oneglance.server.service import Service
from oneglance.server.tokens import TextOffsets, chat_logprobs, completion_logprobs, origins
from oneglance.server.tools.calls import CallPart, CallReader
from oneglance.server.usage import usage_of
from oneglance.types import Token


@dataclass(frozen=True)
class Part:
    """A part of an answer, or all of it.

    Attributes:
        text: its text.
        tokens: the tokens that were released with it.
        completion: the whole answer, with its last part.
    """

    text: str
    tokens: tuple[Token, ...] = ()
    completion: Completion | None = None


class Writer(ABC):
    """Writes the answer to one request."""

    prefix: str
    whole_kind: str
    chunk_kind: str

    def __init__(self, service: Service, body: SharedFields, admitted: Admitted) -> None:
        """Takes what was asked and what is in progress."""
        self._tokenizer = service.tokenizer
        self._service = service
        self._body = body
        self._admitted = admitted
        self._report = None if body.speculation is None else body.speculation.report
        self._head = {
            "id": f"{self.prefix}-{uuid4().hex}",
            "created": int(time.time()),
            "model": body.model,
            "system_fingerprint": service.fingerprint,
        }

    def whole(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """The answer in one object."""
        choices = [
            {
                "index": index,
                **self._whole_choice(index, completion),
                **self._speculation(Part(completion.text, completion.tokens, completion)),
            }
            for index, completion in enumerate(completions)
        ]
        return {
            **self._head,
            "object": self.whole_kind,
            "choices": choices,
            "usage": usage_of(self._admitted, completions),
        }

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self._body.wants_usage

    def chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        """A chunk with one choice."""
        return self._chunk([choice], None)

    def usage_chunk(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """The chunk that ends a stream whose usage was asked for."""
        return self._chunk([], usage_of(self._admitted, completions))

    @abstractmethod
    def begin(self, index: int) -> dict[str, Any] | None:
        """What a stream says of an answer before its first token; None: nothing."""

    @abstractmethod
    def choices(self, index: int, part: Part) -> list[dict[str, Any]]:
        """What a stream says of a part: choices for chunks, perhaps none."""

    @abstractmethod
    def _whole_choice(self, index: int, completion: Completion) -> dict[str, Any]: ...

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
        chunk = {**self._head, "object": self.chunk_kind, "choices": choices}
        if self._body.wants_usage:
            chunk["usage"] = usage
        return chunk

    def _speculation(self, part: Part) -> dict[str, Any]:
        """The extension, where it was asked for and there is something to tell."""
        told: dict[str, Any] = {}
        if self._report is not None and part.completion is not None:
            told |= part.completion.speculation
        if self._report == "tokens" and part.tokens:
            told["tokens"] = origins(self._tokenizer, part.tokens)
        return {"speculation": told} if told else {}


class CompletionWriter(Writer):
    """Writes the answer to a request for completions."""

    prefix = "cmpl"
    whole_kind = chunk_kind = "text_completion"

    def __init__(self, service: Service, body: CompletionRequest, admitted: Admitted) -> None:
        """As for `Writer`."""
        super().__init__(service, body, admitted)
        self._num_top = body.logprobs
        self._offsets = [TextOffsets(self._tokenizer) for _ in admitted.handles]

    def begin(self, index: int) -> dict[str, Any] | None:
        """The prompt, if it is to be repeated."""
        echo = self._admitted.echoes[index]
        return self._choice(index, Part(echo), None) if echo else None

    def choices(self, index: int, part: Part) -> list[dict[str, Any]]:
        """One choice, unless there is neither text nor logprobs nor the end."""
        done = part.completion
        if not part.text and done is None and (not part.tokens or not self._shows_tokens):
            return []
        return [self._choice(index, part, None if done is None else done.finish_reason)]

    def _whole_choice(self, index: int, completion: Completion) -> dict[str, Any]:
        return {
            "text": self._admitted.echoes[index] + completion.text,
            "logprobs": self._logprobs(index, completion.tokens),
            "finish_reason": completion.finish_reason,
        }

    @property
    def _shows_tokens(self) -> bool:
        return self._num_top is not None or self._report == "tokens"

    def _choice(self, index: int, part: Part, reason: str | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": part.text,
            "logprobs": self._logprobs(index, part.tokens),
            "finish_reason": reason,
            **self._speculation(part),
        }

    def _logprobs(self, index: int, tokens: Sequence[Any]) -> dict[str, Any] | None:
        if self._num_top is None:
            return None
        return completion_logprobs(self._tokenizer, tokens, self._num_top, self._offsets[index])


class ChatWriter(Writer):
    """Writes the answer to a request for chat completions."""

    prefix = "chatcmpl"
    whole_kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def __init__(self, service: Service, body: ChatRequest, admitted: Admitted) -> None:
        """As for `Writer`."""
        super().__init__(service, body, admitted)
        self._has_logprobs = body.num_top_logprobs is not None
        self._readers = [CallReader() for _ in admitted.handles]
        if body.service_tier is not None:
            self._head["service_tier"] = "default"

    def begin(self, index: int) -> dict[str, Any]:
        """Whose turn it is."""
        return self._choice(index, {"role": "assistant", "content": "", "refusal": None}, None)

    def choices(self, index: int, part: Part) -> list[dict[str, Any]]:
        """Choices with text, with parts of calls, and with the end."""
        text, calls = self._read(index, part.text, part.completion is not None)
        deltas: list[dict[str, Any]] = []
        shows_tokens = self._has_logprobs or self._report == "tokens"
        if text or (part.tokens and shows_tokens and not calls):
            deltas.append({"content": text})
        deltas += [{"tool_calls": [_call_delta(call)]} for call in calls]
        choices = [self._choice(index, delta, None) for delta in deltas]
        if choices and self._has_logprobs:
            choices[0]["logprobs"] = chat_logprobs(self._tokenizer, part.tokens)
        told = self._speculation(part)
        if part.completion is not None:
            reason = self._finish_reason(index, part.completion)
            choices.append(self._choice(index, {}, reason) | told)
        elif told:
            choices[0] |= told
        return choices

    def _whole_choice(self, index: int, completion: Completion) -> dict[str, Any]:
        text, calls = self._read(index, completion.text, True)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if calls and not text else text,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = _whole_calls(calls)
        logprobs = chat_logprobs(self._tokenizer, completion.tokens) if self._has_logprobs else None
        return {
            "message": message,
            "logprobs": logprobs,
            "finish_reason": self._finish_reason(index, completion),
        }

    def _read(self, index: int, text: str, is_last: bool) -> tuple[str, list[CallPart]]:
        if not self._admitted.has_calls:
            return text, []
        said, calls = self._readers[index].push(text)
        if is_last:
            rest, more = self._readers[index].flush()
            return said + rest, calls + more
        return said, calls

    def _finish_reason(self, index: int, completion: Completion) -> str:
        reader = self._readers[index]
        if reader.num_calls and not reader.is_within_call and completion.finish_reason == "stop":
            return "tool_calls"
        return completion.finish_reason

    def _choice(self, index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _call_delta(part: CallPart) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": part.arguments}
    if part.name is None:
        return {"index": part.index, "function": function}
    function = {"name": part.name, **function}
    return {"index": part.index, "id": _call_id(), "type": "function", "function": function}


def _whole_calls(parts: Sequence[CallPart]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for part in parts:
        if part.name is not None:
            function = {"name": part.name, "arguments": ""}
            calls.append({"id": _call_id(), "type": "function", "function": function})
        calls[-1]["function"]["arguments"] += part.arguments
    return calls


def _call_id() -> str:
    return f"call_{uuid4().hex[:24]}"
