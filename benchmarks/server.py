"""A server that speaks OpenAI's protocol, asked for the same answers."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from oneglance.bench.http_json import NoAnswerError, post_json
from oneglance.errors import ParameterError

TIMEOUT_SECONDS = 600.0
NO_SUCH_PATH = (404, 405, 501)


class _NoSuchPathError(Exception):
    """The server does not know the path."""


class Server:
    """A server that completes text: `/v1/completions`, or llama.cpp's own `/completion`."""

    def __init__(self, url: str, model: str) -> None:
        """Finds out how it wants to be asked, by one short answer.

        Args:
            url: where it listens, such as http://127.0.0.1:8080.
            model: name to send; most servers have one model and don't look at it.

        Raises:
            ParameterError: the URL is none, nobody answers, or not as expected.
        """
        if urlsplit(url).scheme not in ("http", "https"):
            raise ParameterError(f"--peer {url!r} is no URL; write it as http://HOST:PORT.")
        self.url = url.rstrip("/").removesuffix("/v1")
        self._model = model
        self._is_openai = True
        try:
            self._ask("The", 1)
        except _NoSuchPathError:
            self._is_openai = False
            self.measure("The", 1)

    def measure(self, prompt: str, max_tokens: int) -> dict[str, float]:
        """One greedy answer: its tokens, and the seconds from the request to its end.

        Raises:
            ParameterError: the server failed.
        """
        start = time.perf_counter()
        try:
            tokens = self._ask(prompt, max_tokens)
        except _NoSuchPathError:
            raise self._refusal("it has neither /v1/completions nor /completion") from None
        return {"tokens": tokens, "seconds": time.perf_counter() - start}

    def _ask(self, prompt: str, max_tokens: int) -> int:
        """Number of tokens of the answer."""
        if self._is_openai:
            question = {"model": self._model, "prompt": prompt, "max_tokens": max_tokens}
            answer = self._post("/v1/completions", {**question, "temperature": 0})
            usage = answer.get("usage")
            return self._count(usage.get("completion_tokens") if isinstance(usage, dict) else None)
        question = {"prompt": prompt, "n_predict": max_tokens, "temperature": 0}
        return self._count(self._post("/completion", question).get("tokens_predicted"))

    def _count(self, tokens: object) -> int:
        if not isinstance(tokens, int) or tokens < 1:
            raise self._refusal("its answer does not say how many tokens it has")
        return tokens

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return post_json(self.url + path, body, TIMEOUT_SECONDS)
        except NoAnswerError as error:
            if error.code in NO_SUCH_PATH:
                raise _NoSuchPathError from None
            raise self._refusal(error.reason) from None

    def _refusal(self, reason: str) -> ParameterError:
        return ParameterError(
            f"--peer {self.url} does not complete text ({reason}); give the address of a running "
            "server with /v1/completions."
        )
