"""From the bytes of a body to a checked request, or to the error that names the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from oneglance.server.errors import ApiError, invalid
from oneglance.server.schema.common import SharedFields

Request = TypeVar("Request", bound=SharedFields)

_SHOWN = 60
"""Characters of a bad value in a message."""


def parse_body(kind: type[Request], body: bytes) -> Request:
    """Reads a body.

    Args:
        kind: the request that it should be.
        body: as it came.

    Raises:
        ApiError: it is no JSON, or a parameter is missing, unknown or cannot be used.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise _refusal(kind, body, error.errors(include_url=False)) from None


def _refusal(kind: type[SharedFields], body: bytes, errors: Sequence[ErrorDetails]) -> ApiError:
    if errors[0]["type"] == "json_invalid":
        return invalid(f"The body is no JSON that can be read: {errors[0]['msg']}.", None)
    data = from_json(body)
    # Of the members of a union, the one that fits best has its fault deepest, or furthest on.
    placed = [(_path(error, data), error) for error in errors]
    path, error = max(placed, key=lambda pair: _depth(pair[0]))
    reasons = dict.fromkeys(_reason(each) for where, each in placed if where == path)
    if not path:
        return invalid(f"The request cannot be used: {'; or '.join(reasons)}.", None)
    name = _spelling(path)
    if error["type"] == "missing":
        return invalid(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if error["type"] == "extra_forbidden":
        return _unknown(kind, path, name)
    shown = repr(error["input"])
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return invalid(
        f"Invalid value for '{name}': {shown}. {'; or '.join(reasons)}.", name, "invalid_value"
    )


def _unknown(kind: type[SharedFields], path: Sequence[str | int], name: str) -> ApiError:
    if path[0] in kind.NOT_OFFERED:
        return invalid(
            f"This server does not offer '{name}'; leave it out.", name, "unsupported_parameter"
        )
    return invalid(
        f"Unknown parameter: '{name}'; leave it out, or see the server's documentation for what "
        "it takes.",
        name,
        "unknown_parameter",
    )


def _path(error: ErrorDetails, data: Any) -> list[str | int]:
    """Where in the data the fault lies: the location without the names of union members."""
    path: list[str | int] = []
    for step in error["loc"]:
        is_key = isinstance(data, dict) and step in data
        is_index = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if is_key or is_index:
            data = data[step]
            path.append(step)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return path


def _depth(path: Sequence[str | int]) -> tuple[int, list[int]]:
    return len(path), [step for step in path if isinstance(step, int)]


def _spelling(path: Sequence[str | int]) -> str:
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).removeprefix(".")


def _reason(error: ErrorDetails) -> str:
    return str(error["msg"]).removeprefix("Value error, ").rstrip(".")
