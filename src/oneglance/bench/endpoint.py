"""Any server that speaks OpenAI's protocol, asked over HTTP and streaming.

It is asked through /v1/chat/completions, so that its own chat template is used, and it must say how
many tokens its answer has (`stream_options.include_usage`): pieces of a stream are no tokens where
a server speculates. How long it read the prompt it does not tell; whole answers can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from oneglance.bench.http_json import NoAnswerError, get_json, stream_json
from oneglance.bench.subject import Answer, Question
from oneglance.errors import ParameterError

ANSWER_SECONDS = 1800.0
"""Of silence, after which a server counts as gone; a long prompt on a slow one takes minutes."""
LIST_SECONDS = 30.0
UNNAMED = "default"
"""The model's name for a server that has no list of its models."""


@dataclass(frozen=True)
class Endpoint:
    """A running server.

    Attributes:
        label: its name in results.
        url: where it listens, without /v1.
        model: name that is sent.
        api_key: is sent as a bearer token; None: none is.
        is_greedy_only: no; it is asked at every temperature, and draws its own tokens.
    """

    label: str
    url: str
    model: str
    api_key: str | None = None
    is_greedy_only: bool = False

    def answer(self, question: Question) -> Answer:
        """One answer: its tokens, the seconds to the first piece of text and to the end.

        Raises:
            ParameterError: the server failed.
        """
        started = time.perf_counter()
        first = usage = None
        texts = []
        try:
            for event in self._ask(question):
                usage = event.get("usage") or usage
                text, is_output = _piece(event)
                texts.append(text)
                if is_output and first is None:
                    first = time.perf_counter() - started
        except NoAnswerError as error:
            raise self._refusal(error.reason) from None
        seconds = time.perf_counter() - started
        return Answer(
            token_ids=None,
            tokens=self._num_tokens(usage),
            seconds=seconds,
            prefill_seconds=None,
            first_token_seconds=first,
            text="".join(texts),
        )

    def describe(self) -> dict[str, object]:
        """For the report."""
        return {"endpoint": self.url, "model": self.model}

    def _ask(self, question: Question) -> Iterable[dict[str, Any]]:
        params = question.params
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question.text}],
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if params.seed is not None:
            body["seed"] = params.seed
        url = f"{self.url}/v1/chat/completions"
        return stream_json(url, body, ANSWER_SECONDS, _headers(self.api_key))

    def _num_tokens(self, usage: object) -> int:
        tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
        if not isinstance(tokens, int) or tokens < 1:
            raise self._refusal("its stream does not say how many tokens it has, or has none")
        return tokens

    def _refusal(self, reason: str) -> ParameterError:
        return _refusal(self.url, reason)


def find_endpoint(text: str, model: str | None, api_key: str | None) -> Endpoint:
    """Reads URL or NAME=URL and asks the server for its model.

    Args:
        text: where it listens, such as http://127.0.0.1:8080; /v1 at its end may be left out.
        model: name to send; None: that of the only model that the server lists.
        api_key: as in `Endpoint`.

    Raises:
        ParameterError: the URL is none, nobody answers, or there are several models.
    """
    name, equals, url = text.partition("=")
    if not equals or "/" in name:
        name, url = "", text
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username is not None:
        raise ParameterError(
            f"--endpoint {text!r} is no URL; write it as http://HOST:PORT or NAME=http://HOST:PORT."
        )
    url = url.rstrip("/").removesuffix("/v1")
    return Endpoint(name or parts.netloc, url, model or _only_model(url, api_key), api_key)


def _only_model(url: str, api_key: str | None) -> str:
    try:
        listed = get_json(f"{url}/v1/models", LIST_SECONDS, _headers(api_key)).get("data")
    except NoAnswerError as error:
        if error.code in (404, 405, 501):
            return UNNAMED
        raise _refusal(url, error.reason) from None
    names = [each["id"] for each in listed or [] if isinstance(each, dict) and "id" in each]
    if len(names) > 1:
        raise ParameterError(
            f"--endpoint {url} has {len(names)} models ({', '.join(map(str, names[:5]))}); name "
            "one with --endpoint-model."
        )
    return str(names[0]) if names else UNNAMED


def _piece(event: Mapping[str, Any]) -> tuple[str, bool]:
    """The text of an event, and whether the model wrote anything in it, thoughts included."""
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    text = delta.get("content") or ""
    return text, bool(text or delta.get("reasoning_content") or delta.get("reasoning"))


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def _refusal(url: str, reason: str) -> ParameterError:
    return ParameterError(
        f"--endpoint {url} does not answer as OpenAI's protocol has it ({reason}); give the "
        "address of a running server with /v1/chat/completions."
    )
