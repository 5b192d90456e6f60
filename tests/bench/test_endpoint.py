"""Servers are asked as OpenAI's protocol has it, and what they leave out is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from oneglance.bench.endpoint import find_endpoint
from oneglance.bench.subject import Question
from oneglance.config import SamplingParams
from oneglance.errors import ParameterError

TEXTS = ("One", ", two", ", three")
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}


def chunk(text: str, field: str = "content") -> dict[str, Any]:
    return {"choices": [{"delta": {field: text}}], "usage": None}


GOOD = [chunk("", "role"), *map(chunk, TEXTS), USAGE]


class Server(ThreadingHTTPServer):
    """Streams the same events to everybody; keeps what it was asked."""

    events: list[dict[str, Any] | str]
    models: list[str] | None
    is_whole: bool
    asked: list[tuple[str, dict[str, Any], str | None]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        models = self.server.models
        listed = {"data": [{"id": name} for name in models or []]}
        self._begin(404 if models is None else 200)
        self.wfile.write(json.dumps(listed).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, self.headers["Authorization"]))
        self._begin(200)
        self.wfile.write(b": welcome\n\n")
        for event in self.server.events:
            text = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"data: {text}\n\n".encode())
        if self.server.is_whole:
            self.wfile.write(b"data: [DONE]\n\n")

    def _begin(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(
    events: list[Any], models: list[str] | None = None, is_whole: bool = True
) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.events, server.models, server.is_whole, server.asked = events, models, is_whole, []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def question(**sampling: Any) -> Question:
    return Question("Count.", (), SamplingParams(max_tokens=10, **sampling), None, "")


def test_tokens_are_those_that_the_server_counts() -> None:
    with serving(GOOD, ["m"]) as server:
        answer = find_endpoint(f"{server.url}/v1/", None, None).answer(question())
    assert (answer.tokens, answer.text, answer.token_ids) == (5, "One, two, three", None)
    assert answer.first_token_seconds is not None
    assert 0 < answer.first_token_seconds <= answer.seconds
    assert answer.prefill_seconds is answer.passes is None


def test_it_is_asked_for_the_same_answer() -> None:
    with serving(GOOD, ["m"]) as server:
        endpoint = find_endpoint(server.url, None, "secret")
        endpoint.answer(question())
        endpoint.answer(question(temperature=0.8, seed=7))
        (path, first, key), (_, second, _) = server.asked
    assert path == "/v1/chat/completions"
    assert key == "Bearer secret"
    assert first == {
        "model": "m",
        "messages": [{"role": "user", "content": "Count."}],
        "max_tokens": 10,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (second["temperature"], second["seed"]) == (0.8, 7)
    assert "secret" not in str(endpoint.describe())


def test_thoughts_are_the_first_tokens() -> None:
    with serving([chunk("Hm", "reasoning_content"), USAGE, {"choices": None}]) as server:
        answer = find_endpoint(server.url, None, None).answer(question())
        _, body, key = server.asked[0]
    assert (answer.first_token_seconds is None, answer.text) == (False, "")
    assert (body["model"], key) == ("default", None)  # it has no list of models


@pytest.mark.parametrize(
    ("events", "is_whole", "complaint"),
    [
        ([chunk("One")], True, "does not say how many tokens"),
        ([chunk("One"), USAGE], False, "its stream breaks off"),
        (["no json"], True, "its answer is no JSON"),
        (["[1]"], True, "no JSON object"),
    ],
)
def test_what_is_no_such_stream(events: list[Any], is_whole: bool, complaint: str) -> None:
    with serving(events, ["m"], is_whole) as server:
        endpoint = find_endpoint(server.url, None, None)
        with pytest.raises(ParameterError, match=complaint):
            endpoint.answer(question())


def test_several_models_want_a_name() -> None:
    with serving(GOOD, ["m", "n"]) as server:
        with pytest.raises(ParameterError, match=r"has 2 models \(m, n\); name one"):
            find_endpoint(server.url, None, None)
        named = find_endpoint(f"fast={server.url}", "n", None)
        assert (named.label, named.model, named.url) == ("fast", "n", server.url)
        assert find_endpoint(server.url, "n", None).label == server.url.removeprefix("http://")


@pytest.mark.parametrize("text", ["localhost:1", "x=ftp://a", "http://", "http://me:key@host"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ParameterError, match="is no URL"):
        find_endpoint(text, "m", None)


def test_nobody_answers() -> None:
    with pytest.raises(ParameterError, match="does not answer as OpenAI's protocol has it"):
        find_endpoint("http://127.0.0.1:9", None, None)
