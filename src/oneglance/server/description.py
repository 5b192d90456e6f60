"""How the OpenAPI schema describes what the routes read and write by hand."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.completions import CompletionRequest

_REF = "#/components/schemas/{model}"

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}

_EVENT = {
    "description": "One event of the stream; its data is a JSON object, or [DONE] at the end.",
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "string"}},
}

_REFUSALS = {
    400: "A parameter cannot be used.",
    401: "The API key is missing or wrong.",
    404: "The model is not served.",
    413: "The body is too large.",
    429: "Too many requests wait.",
    500: "A fault of the server.",
    503: "The server is shutting down.",
    504: "The answer took longer than the server allows.",
}


def responses(kind: str, *refusals: int) -> dict[int | str, dict[str, Any]]:
    """What a route answers.

    Args:
        kind: media type of its answer.
        refusals: statuses of its errors.
    """
    schema = {"type": "object"} if kind == "application/json" else {"type": "string"}
    found: dict[int | str, dict[str, Any]] = {
        200: {"description": "The answer.", "content": {kind: {"schema": schema}}}
    }
    for status in refusals:
        content = {"application/json": {"schema": _ERROR}}
        found[status] = {"description": _REFUSALS[status], "content": content}
    return found


def generating() -> dict[int | str, dict[str, Any]]:
    """What a route answers that generates text: in one piece, or as a stream of events."""
    found = responses("application/json", *_REFUSALS)
    found[200]["content"]["text/event-stream"] = {"schema": _EVENT}
    return found


def body_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The body that a route takes."""
    schema = kind.model_json_schema(ref_template=_REF)
    schema.pop("$defs", None)  # `openapi` has them
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def openapi(routes: FastAPI) -> dict[str, Any]:
    """The whole schema, with the parts of the bodies."""
    if routes.openapi_schema is None:
        schema = get_openapi(title=routes.title, version=routes.version, routes=routes.routes)
        _, bodies = models_json_schema(
            [(ChatRequest, "validation"), (CompletionRequest, "validation")], ref_template=_REF
        )
        schema.setdefault("components", {}).setdefault("schemas", {}).update(bodies["$defs"])
        routes.openapi_schema = schema
    return routes.openapi_schema
