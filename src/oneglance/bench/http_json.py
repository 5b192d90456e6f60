"""JSON objects over HTTP: one for one, or a stream of them for one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any

STREAM_END = "[DONE]"


class NoAnswerError(Exception):
    """There was no JSON object in return.

    Attributes:
        reason: why, as a part of a sentence.
        code: the server's status, where it gave one.
    """

    def __init__(self, reason: str, code: int | None = None) -> None:
        """Keeps both."""
        super().__init__(reason)
        self.reason = reason
        self.code = code


def post_json(
    url: str,
    body: Mapping[str, Any],
    timeout_seconds: float,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Sends an object and returns the one that comes back.

    Raises:
        NoAnswerError: nobody answered, or not with a JSON object.
    """
    with _opened(_post(url, body, headers), timeout_seconds) as response:
        return _object(response.read())


def get_json(
    url: str, timeout_seconds: float, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns the object that lies there.

    Raises:
        NoAnswerError: nobody answered, or not with a JSON object.
    """
    request = urllib.request.Request(url, headers=dict(headers or {}))
    with _opened(request, timeout_seconds) as response:
        return _object(response.read())


def stream_json(
    url: str,
    body: Mapping[str, Any],
    timeout_seconds: float,
    headers: Mapping[str, str] | None = None,
) -> Generator[dict[str, Any]]:
    """Sends an object and yields those that come back as server-sent events, as they come.

    Args:
        url: where to.
        body: what is asked.
        timeout_seconds: of silence.
        headers: besides the type of the content.

    Raises:
        NoAnswerError: nobody answered, not with events of one JSON object each, or not until the
            end.
    """
    with _opened(_post(url, body, headers), timeout_seconds) as response:
        for line in response:
            field, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
            if field != "data":
                continue  # comments, names of events, and the empty lines between them
            value = value.removeprefix(" ")
            if value == STREAM_END:
                return
            yield _object(value)
    raise NoAnswerError("its stream breaks off")


def _post(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None
) -> urllib.request.Request:
    return urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
    )


@contextmanager
def _opened(request: urllib.request.Request, timeout_seconds: float) -> Iterator[HTTPResponse]:
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as response:
            yield response
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswerError(str(error), error.code) from None
    except (OSError, HTTPException) as error:
        raise NoAnswerError(str(error) or type(error).__name__) from None


def _object(text: bytes | str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        raise NoAnswerError("its answer is no JSON") from None
    if not isinstance(answer, dict):
        raise NoAnswerError("its answer is no JSON object")
    return answer
