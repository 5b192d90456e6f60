"""A small server with OpenAI's protocol and one answer, which may have one of several faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.load.questions import CHAT, ExpectedAnswer, LoadQuestion

WORDS = ("one", " two", " three", " four")
QUESTION = LoadQuestion("q", CHAT, ({"role": "user", "content": "Count."},), {"max_tokens": 4})
EXPECTED = ExpectedAnswer("".join(WORDS), (0, 1, 2, 3), "length", 5)
KNOWN = {
    *("model", "messages", "max_tokens", "temperature", "stream", "stream_options", "speculation")
}
USAGE = {"prompt_tokens": 5, "completion_tokens": 4}
ERROR = {"error": {"message": "no", "type": "x", "param": None, "code": None}}


def _events(fault: str) -> Iterator[dict[str, Any]]:
    tokens = list(enumerate(WORDS))
    if fault == "drops a token":
        del tokens[2]
    if fault == "repeats a token":
        tokens.insert(1, tokens[0])
    if fault == "changes a text":
        tokens[0] = (0, "uno")
    yield _chunk({"role": "assistant", "content": ""})
    for number, word in tokens:
        yield _chunk({"content": word}, tokens=[{"id": number}])
    if fault == "breaks off":
        return
    yield _chunk({}, reason="length")
    yield {"choices": [], "usage": USAGE}


def _chunk(
    delta: dict[str, Any], reason: str | None = None, tokens: list[Any] | None = None
) -> dict[str, Any]:
    choice: dict[str, Any] = {"delta": delta, "finish_reason": reason}
    if tokens is not None:
        choice["speculation"] = {"tokens": tokens}
    return {"choices": [choice]}


def _read(data: bytes) -> dict[str, Any] | None:
    """The body, if it is the question's."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not set(body) <= KNOWN:
        return None
    asked = body.get("model"), body.get("max_tokens"), body.get("temperature", 0)
    return body if asked == ("subject", 4, 0) else None


class _Handler(BaseHTTPRequestHandler):
    fault: str

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        body = _read(data)
        if body is None:
            self._send(500 if self.fault == "fails on nonsense" else 400, ERROR)
        elif body.get("stream"):
            self._stream()
        else:
            text = "uno two three four" if self.fault == "changes a text" else EXPECTED.text
            choice = {"message": {"content": text}, "finish_reason": "length"}
            self._send(200, {"choices": [choice], "usage": USAGE})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def _stream(self) -> None:
        self.send_response(200)
        self.end_headers()
        for event in _events(self.fault):
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        if self.fault != "breaks off":
            self.wfile.write(b"data: [DONE]\n\n")


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Says nothing of clients that leave."""


@contextmanager
def broken_server(fault: str) -> Iterator[int]:
    """Runs the server as long as the context lasts; gives its port."""
    handler = type("_Handler", (_Handler,), {"fault": fault})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
