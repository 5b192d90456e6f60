"""OpenAI's API over HTTP on a free port of this machine, for a `ScriptedServer`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.audit.scripted_server import (
    CONTEXT,
    CrashError,
    Entry,
    Generated,
    RefusedError,
    ScriptedServer,
    num_top,
    prompt_length,
)


def _content(body: dict[str, Any], text: str) -> dict[str, Any]:
    return {"text": text} if "prompt" in body else {"message": {"content": text}}


def _logprobs(entries: Sequence[Entry], body: dict[str, Any]) -> dict[str, Any] | None:
    if not num_top(body):
        return None
    if "prompt" in body:
        return {
            "tokens": [entry.text for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            "top_logprobs": [{entry.text: entry.logprob, **dict(entry.top)} for entry in entries],
        }
    return {
        "content": [
            {
                "token": entry.text,
                "logprob": entry.logprob,
                "top_logprobs": [{"token": text, "logprob": value} for text, value in entry.top],
            }
            for entry in entries
        ]
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True  # a second packet would wait for an acknowledgement
    behaviour: ScriptedServer

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send(200, {"data": [{"id": "scripted", "max_model_len": CONTEXT}]})
        else:
            self._send(404, {"error": {"message": "there is no such path"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            self._send(404, {"error": {"message": "there is no such path"}})
            return
        try:
            found = self.behaviour.answer(body)
        except RefusedError as error:
            self._send(400, {"error": {"message": str(error)}})
        except CrashError as error:
            self._send(500, {"error": {"message": str(error)}})
        else:
            self._answer(body, found)

    def _answer(self, body: dict[str, Any], found: list[Generated]) -> None:
        length = prompt_length(body)
        usage = {
            "prompt_tokens": length,
            "completion_tokens": sum(each.counted for each in found),
        }
        if body.get("stream"):
            self._stream(body, found[0], usage)
            return
        choices = [
            {
                "index": index,
                "finish_reason": each.finish_reason,
                "logprobs": _logprobs(each.entries, body),
                **(
                    {"text": each.text} if "prompt" in body else {"message": {"content": each.text}}
                ),
            }
            for index, each in enumerate(found)
        ]
        self._send(200, {"choices": choices, "usage": usage})

    def _stream(self, body: dict[str, Any], found: Generated, usage: dict[str, int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        rest = found.text
        for entries in self.behaviour.events(found):
            text = "".join(entry.text for entry in entries)[: len(rest)]
            rest = rest[len(text) :]
            part = {"text": text} if "prompt" in body else {"delta": {"content": text}}
            self._event({"choices": [{**part, "logprobs": _logprobs(entries, body)}]})
        if not self.behaviour.ends_stream():
            return
        part = {"text": ""} if "prompt" in body else {"delta": {"content": ""}}
        self._event({"choices": [{**part, "finish_reason": found.finish_reason}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, data: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def _send(self, status: int, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(behaviour: ScriptedServer) -> Iterator[str]:
    """Serves on a free port of this machine; yields the URL."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
