"""The routes of OpenAI's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from oneglance.completion import Completion
from oneglance.server.admit import Admitted, admit_chat, admit_completion
from oneglance.server.answer import Body, OnEnd, admit, events, whole_answers
from oneglance.server.description import body_of, generating, responses
from oneglance.server.errors import unknown_model
from oneglance.server.http import EventStream, JsonAnswer, unless_left
from oneglance.server.keys import Client
from oneglance.server.parse import parse_body
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.common import SharedFields
from oneglance.server.schema.completions import CompletionRequest
from oneglance.server.service import Service
from oneglance.server.writers import ChatWriter, CompletionWriter, Writer


def api_routes(service: Service) -> APIRouter:
    """`/v1/…`, answered by a service."""
    router = APIRouter(prefix="/v1")

    @router.post("/chat/completions", openapi_extra=body_of(ChatRequest), responses=generating())
    async def chat_completions(request: Request) -> Response:
        """Answers a conversation."""
        body = parse_body(ChatRequest, await request.body())
        return await _answer(service, request, body, admit_chat, ChatWriter)

    @router.post("/completions", openapi_extra=body_of(CompletionRequest), responses=generating())
    async def completions(request: Request) -> Response:
        """Continues one text or several."""
        body = parse_body(CompletionRequest, await request.body())
        return await _answer(service, request, body, admit_completion, CompletionWriter)

    @router.get("/models", responses=responses("application/json", 401, 503))
    async def models() -> Response:
        """Lists the names of the model that is served."""
        listed = [_model(service, name) for name in service.settings.names]
        return JsonAnswer({"object": "list", "data": listed})

    @router.get("/models/{name:path}", responses=responses("application/json", 401, 404, 503))
    async def model(name: str) -> Response:
        """Describes the model that is served."""
        if name not in service.settings.names:
            raise unknown_model(name, service.settings.names)
        return JsonAnswer(_model(service, name))

    return router


async def _answer(
    service: Service,
    request: Request,
    body: Body,
    submit: Callable[[Service, Body, Client], Admitted],
    writer_kind: Callable[[Service, Body, Admitted], Writer],
) -> Response:
    state = request.scope["state"]
    begin_facts(service, state, body)
    admitted = await unless_left(request.receive, admit(submit, service, body, state["client"]))
    writer = writer_kind(service, body, admitted)
    on_end = describing(service, admitted, state["facts"])
    if body.is_streamed:
        pieces = events(service, writer, admitted, state["request_id"], on_end)
        return EventStream(pieces, admitted.cancel)
    try:
        waiting = whole_answers(service, admitted, state["request_id"])
        completions = await unless_left(request.receive, waiting)
    finally:
        admitted.cancel()
    on_end(completions)
    return JsonAnswer(writer.whole(completions))


def begin_facts(service: Service, state: dict[str, Any], body: SharedFields) -> None:
    """Puts what was asked into the facts for the log."""
    facts: dict[str, Any] = state["facts"]
    facts |= {"user": body.user, "is_streamed": body.is_streamed, "n": body.num_choices}
    if service.settings.log_prompts:
        facts["prompt"] = body.model_dump(include={"messages", "prompt"}, exclude_none=True)


def describing(service: Service, admitted: Admitted, facts: dict[str, Any]) -> OnEnd:
    """Puts what was admitted, and in the end what became of it, into the facts for the log."""
    facts["prompt_tokens"] = admitted.num_prompt_tokens

    def describe(completions: list[Completion]) -> None:
        firsts = [handle.timing for handle in admitted.handles]
        waits = [each.first_token - each.submitted for each in firsts if each.first_token]
        facts.update(
            completion_tokens=sum(len(each.tokens) for each in completions),
            cached_tokens=admitted.num_cached_tokens,
            finish_reasons=[each.finish_reason for each in completions],
            first_token_seconds=round(min(waits), 4) if waits else None,
            drafter=completions[0].drafter,
            passes=sum(each.stats.passes for each in completions),
            drafted=sum(each.stats.drafted for each in completions),
            accepted=sum(each.stats.accepted for each in completions),
        )
        if service.settings.log_prompts:
            facts["answers"] = [each.text for each in completions]

    return describe


def _model(service: Service, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": service.created,
        "owned_by": "oneglance",
        "max_model_len": service.context_length,
    }
