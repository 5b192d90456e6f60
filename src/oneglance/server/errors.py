"""Errors in the shape that OpenAI's clients read, with the offending parameter named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import JSONResponse

INVALID_REQUEST = "invalid_request_error"
"""Type of every error that another request would not meet."""


@dataclass(eq=False)
class ApiError(Exception):
    """A request that is not answered.

    Attributes:
        status: of HTTP.
        message: what is wrong, and the remedy.
        param: the parameter at fault, such as "messages[0].content"; None: no single one.
        code: a word for programs; None: the status says enough.
        kind: OpenAI's `type`.
        headers: of the response, besides the usual ones.
    """

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    kind: str = INVALID_REQUEST
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, object]:
        """OpenAI's error object."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}

    def response(self) -> JSONResponse:
        """The error as a response."""
        return JSONResponse(self.to_dict(), self.status, dict(self.headers))


def invalid(message: str, param: str | None, code: str | None = None) -> ApiError:
    """A parameter that cannot be honoured."""
    return ApiError(400, message, param, code)


def unauthorized() -> ApiError:
    """A missing or wrong API key."""
    return ApiError(
        401,
        "The API key is missing or wrong; send a key of this server as "
        "'Authorization: Bearer KEY'.",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def too_large(limit: int) -> ApiError:
    """A body of more bytes than the server takes."""
    return ApiError(
        413,
        f"The body is larger than {limit} bytes, the most that this server takes; send less, or "
        "have max_body_bytes raised.",
        code="request_too_large",
    )


def unknown_model(name: str, known: tuple[str, ...]) -> ApiError:
    """A model that is not served."""
    return ApiError(
        404,
        f"The model {name!r} is not served here; use {' or '.join(map(repr, known))}.",
        "model",
        "model_not_found",
    )


def busy(num_waiting: int, retry_after_seconds: int) -> ApiError:
    """The queue is full."""
    return ApiError(
        429,
        f"{num_waiting} requests are waiting, as many as this server lets wait; try again in "
        f"{retry_after_seconds} s.",
        code="rate_limit_exceeded",
        kind="requests",
        headers={"Retry-After": str(retry_after_seconds)},
    )


def draining(retry_after_seconds: int) -> ApiError:
    """The server is on its way out and takes nothing new."""
    return ApiError(
        503,
        "The server is shutting down and takes no new requests; try again in "
        f"{retry_after_seconds} s.",
        code="service_unavailable",
        kind="server_error",
        headers={"Retry-After": str(retry_after_seconds), "Connection": "close"},
    )


def internal(request_id: str) -> ApiError:
    """A fault of the server; the log has it under the request's id."""
    return ApiError(
        500,
        f"The server failed on this request; its log says why, under {request_id}.",
        code="internal_error",
        kind="server_error",
    )
