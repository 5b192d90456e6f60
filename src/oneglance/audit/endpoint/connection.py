"""HTTP with a server: JSON there, JSON or server-sent events back, one connection per thread."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from oneglance.errors import EndpointError, ParameterError

REFUSALS = frozenset({400, 404, 405, 413, 415, 422, 501})
"""Statuses by which a server says that it does not do this."""

MAX_WAITS = 5
"""How often a busy server (429, 503) is asked again."""


class RefusedError(Exception):
    """The server answered that it does not do what was asked. Never leaves the audit."""


class BrokenAnswerError(Exception):
    """The server failed: an error of its own, or an answer that breaks off."""


class SlowAnswerError(EndpointError):
    """No answer came within the time that was allowed: whether one would have is not known."""


@dataclass(frozen=True)
class Stream:
    """A streamed answer.

    Attributes:
        events: the JSON objects, in order.
        is_done: the stream ended with `[DONE]`.
        error: why it broke off; None if it did not.
    """

    events: tuple[dict[str, Any], ...]
    is_done: bool
    error: str | None


class Connection:
    """Requests to one server. May be used by several threads at once."""

    def __init__(self, url: str, api_key: str | None = None, timeout_seconds: float = 120) -> None:
        """Connects to nothing yet.

        Args:
            url: such as http://127.0.0.1:8000 or https://host/v1; /v1 is added if it has no path.
            api_key: sent as a bearer token.
            timeout_seconds: for each answer, or each event of a stream.

        Raises:
            ParameterError: the URL is not one of HTTP.
        """
        self.url = url
        self._parts = _split(url)
        self._prefix = self._parts.path.rstrip("/") or "/v1"
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = timeout_seconds
        self._local = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def get(self, path: str) -> Any:
        """The JSON object at a path below the API's root.

        Raises:
            RefusedError: there is none.
            BrokenAnswerError: the server failed.
            SlowAnswerError: it took too long.
            EndpointError: it cannot be reached, or refuses the key.
        """
        return _parsed(*self._exchange("GET", path, None))

    def post(self, path: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Answers of a request that does not stream; errors as for `get`."""
        answer = _parsed(*self._exchange("POST", path, payload))
        if not isinstance(answer, dict):
            raise BrokenAnswerError("the answer is no JSON object")
        return answer

    def stream(self, path: str, payload: dict[str, Any]) -> Stream:
        """The events of a request that streams; errors before the first event as for `get`."""
        response = self._open("POST", path, {**payload, "stream": True})
        events: list[dict[str, Any]] = []
        try:
            if response.status != 200:
                _parsed(response.status, response.read())
            for data in _event_data(response):
                if data == "[DONE]":
                    response.read()
                    return Stream(tuple(events), True, None)
                events.append(json.loads(data))
        except (http.client.HTTPException, OSError, ValueError) as error:
            self._drop()
            return Stream(tuple(events), False, f"{type(error).__name__}: {error}")
        self._drop()
        return Stream(tuple(events), False, None)

    def close(self) -> None:
        """Closes the connections of all threads; none may be in use."""
        while self._opened:
            self._opened.pop().close()
        self._local = threading.local()

    def _exchange(self, method: str, path: str, payload: Any) -> tuple[int, bytes]:
        for wait in range(MAX_WAITS + 1):
            response = self._open(method, path, payload)
            try:
                body = response.read()
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                raise BrokenAnswerError(f"the answer broke off ({error})") from None
            if response.status not in (429, 503) or wait == MAX_WAITS:
                break
            time.sleep(2**wait / 2)
        return response.status, body

    def _open(self, method: str, path: str, payload: Any) -> http.client.HTTPResponse:
        """Sends a request; once more on a new connection where a kept one had been closed."""
        body = None if payload is None else json.dumps(payload).encode()
        while True:
            kept = getattr(self._local, "connection", None)
            connection = kept or self._connect()
            self._local.connection = connection
            try:
                connection.request(method, f"{self._prefix}{path}", body, self._headers)
                return connection.getresponse()
            except (http.client.HTTPException, OSError) as error:
                was_connected = connection.sock is not None
                self._drop()
                if kept is not None and isinstance(error, ConnectionError):
                    continue
                if isinstance(error, TimeoutError) and was_connected:
                    raise SlowAnswerError(
                        f"{self.url} gave no answer within {self._timeout:g} s; allow more with "
                        "--timeout, or look whether the server hangs."
                    ) from None
                if isinstance(error, http.client.RemoteDisconnected):
                    raise BrokenAnswerError("the server closed without an answer") from None
                reason = str(error) or type(error).__name__
                raise EndpointError(
                    f"{self.url} does not answer ({reason}); start the server, or check the URL."
                ) from None

    def _connect(self) -> http.client.HTTPConnection:
        is_plain = self._parts.scheme == "http"
        kind = http.client.HTTPConnection if is_plain else http.client.HTTPSConnection
        connection = kind(self._parts.netloc.rpartition("@")[2], timeout=self._timeout)
        self._opened.append(connection)
        return connection

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
        self._local.connection = None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ParameterError(
            f"URL {url!r} cannot be used; give one such as http://127.0.0.1:8000/v1."
        )
    return parts


def _event_data(response: http.client.HTTPResponse) -> Iterator[str]:
    """The data of server-sent events; comments and other fields are passed over."""
    for line in response:
        text = line.decode("utf-8", "replace").strip()
        if text.startswith("data:"):
            yield text.removeprefix("data:").strip()


def _parsed(status: int, body: bytes) -> Any:
    text = body.decode("utf-8", "replace")
    if status == 200:
        try:
            return json.loads(text)
        except ValueError:
            raise BrokenAnswerError("the answer is not JSON") from None
    message = f"HTTP {status}: {_message(text)}"
    if status in REFUSALS:
        raise RefusedError(message)
    if status in (401, 403):
        raise EndpointError(f"The server refuses the key ({message}); set OPENAI_API_KEY.")
    raise BrokenAnswerError(message)


def _message(text: str) -> str:
    try:
        error = json.loads(text)
        error = error.get("error", error)
        found = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        found = text
    return " ".join(str(found).split())[:300]
