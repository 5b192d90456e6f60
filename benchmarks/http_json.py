"""A JSON object for a JSON object, over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any


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


def post_json(url: str, body: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
    """Sends an object and returns the one that comes back.

    Raises:
        NoAnswerError: nobody answered, or not with a JSON object.
    """
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswerError(str(error), error.code) from None
    except (OSError, HTTPException) as error:
        raise NoAnswerError(str(error) or type(error).__name__) from None
    except ValueError:
        raise NoAnswerError("its answer is no JSON") from None
    if not isinstance(answer, dict):
        raise NoAnswerError("its answer is no JSON object")
    return answer
