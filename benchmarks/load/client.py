"""A client that can be rude: whole answers, streams that it leaves, bodies that it never ends."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

HANG_SECONDS = 120.0
"""Of silence, after which a server counts as hanging."""


class BrokenAnswerError(Exception):
    """The server hung, broke off, or sent no events; the message says which."""


@contextmanager
def posted(
    port: int, path: str, body: bytes, timeout_seconds: float = HANG_SECONDS
) -> Iterator[HTTPResponse]:
    """Sends a body on a connection of its own, which is closed at the end, read or not.

    Raises:
        BrokenAnswerError: no response began.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
    try:
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            raise broken(error) from None
        yield response
    finally:
        connection.close()


def post(
    port: int, path: str, body: bytes, timeout_seconds: float = HANG_SECONDS
) -> tuple[int, bytes]:
    """Sends a body; returns status and content.

    Raises:
        BrokenAnswerError: the server hung or broke off.
    """
    with posted(port, path, body, timeout_seconds) as response:
        try:
            return response.status, response.read()
        except (OSError, HTTPException) as error:
            raise broken(error) from None


def read_events(response: HTTPResponse) -> Generator[dict[str, Any]]:
    """The events of a stream until its end.

    Raises:
        BrokenAnswerError: it is no stream, hangs, breaks off, or has an event with an error.
    """
    if response.status != 200:
        raise BrokenAnswerError(f"the status is {response.status}: {response.read()[:200]!r}")
    try:
        for line in response:
            if not line.startswith(b"data: "):
                continue
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                return
            yield _event(data)
    except (OSError, HTTPException) as error:
        raise broken(error) from None
    raise BrokenAnswerError("the stream breaks off")


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent."""
    return json.dumps(body).encode()


def broken(error: Exception) -> BrokenAnswerError:
    """The error of a connection in words."""
    if isinstance(error, TimeoutError):
        return BrokenAnswerError("the server hung")
    return BrokenAnswerError(f"the connection failed: {error or type(error).__name__}")


def _event(data: bytes) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError:
        raise BrokenAnswerError(f"an event is no JSON: {data[:80]!r}") from None
    if not isinstance(event, dict) or "error" in event:
        raise BrokenAnswerError(f"an event is an error: {data[:200]!r}")
    return event
