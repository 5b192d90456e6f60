"""The page at `/`: its files, its headers, and the routes that only it asks."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from oneglance.drafters.spec import split_spec
from oneglance.server.answer import admit
from oneglance.server.description import body_of, generating, responses
from oneglance.server.http import EventStream, JsonAnswer, unless_left
from oneglance.server.parse import parse_body
from oneglance.server.race import RaceRunner, body_of_turn, check_race, submit_run, turns
from oneglance.server.routes import begin_facts, describing
from oneglance.server.schema.page import MAX_ROUNDS, RaceRequest, TraceRequest
from oneglance.server.service import Service
from oneglance.server.settings import ServerSettings
from oneglance.server.watched import Watch, check_watched, trace_events
from oneglance.show.page import SCRIPTS, STATIC, STYLE

OWN = Path(__file__).parent / "static"
INDEX = "index.html"
FILES: Mapping[str, Path] = {
    **{name: STATIC / name for name in (STYLE, *SCRIPTS)},
    **{path.name: path for path in sorted(OWN.iterdir()) if path.name != INDEX},
}
"""What the page loads, by the name that it has below `/page/`."""

PAGE_PATHS = ("/", *(f"/page/{name}" for name in FILES))
"""Need no key: they are the same on every server."""
ASKED_PATHS = ("/v1/oneglance", "/v1/oneglance/trace", "/v1/oneglance/race")

HEADERS = {
    # Everything comes from this server, and no script stands in the page itself.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes(service: Service) -> APIRouter:
    """The page, and what it asks, answered by a service."""
    router = APIRouter()
    _add_files(router)

    @router.get("/v1/oneglance", responses=responses("application/json", 401, 503))
    async def options() -> Response:
        """Says what may be asked of this server."""
        return JsonAnswer(_options(service))

    @router.post("/v1/oneglance/trace", openapi_extra=body_of(TraceRequest), responses=generating())
    async def trace(request: Request) -> Response:
        """Answers a conversation, and tells of every pass."""
        body = parse_body(TraceRequest, await request.body())
        check_watched(body)
        state = request.scope["state"]
        begin_facts(service, state, body)
        watch = Watch(service.tokenizer)
        admitting = admit(watch.submit, service, body, state["client"])
        admitted = await unless_left(request.receive, admitting)
        on_end = describing(service, admitted, state["facts"])
        passes = trace_events(service, body, watch, admitted, state["request_id"], on_end)
        return EventStream(passes, admitted.cancel)

    @router.post("/v1/oneglance/race", openapi_extra=body_of(RaceRequest), responses=generating())
    async def race(request: Request) -> Response:
        """Answers a conversation with nothing drafted and with drafts, by turns."""
        body = parse_body(RaceRequest, await request.body())
        check_watched(body)
        check_race(service, body)
        state = request.scope["state"]
        begin_facts(service, state, body)
        first = body_of_turn(body, turns(body.rounds)[0])
        admitting = admit(submit_run, service, first, state["client"])
        admitted = await unless_left(request.receive, admitting)
        runner = RaceRunner(service, body, state["client"], admitted)
        on_end = describing(service, admitted, state["facts"])
        return EventStream(runner.events(state["request_id"], on_end), runner.cancel)

    return router


def _add_files(router: APIRouter) -> None:
    index = _file(OWN / INDEX)
    files = {name: _file(path) for name, path in FILES.items()}

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response(index[0], media_type=index[1], headers=HEADERS)

    def add(path: str, content: bytes, kind: str) -> None:
        @router.get(path, include_in_schema=False)
        async def file() -> Response:
            return Response(content, media_type=kind, headers=HEADERS)

    for name, (content, kind) in files.items():
        add(f"/page/{name}", content, kind)


def _file(path: Path) -> tuple[bytes, str]:
    kind, _ = mimetypes.guess_type(path.name)
    assert kind is not None, "the page's files have known kinds"
    return path.read_bytes(), kind


def _drafters(settings: ServerSettings) -> list[str]:
    """Those that the page can name: it has no prediction to send."""
    names = dict.fromkeys((settings.drafter, *settings.allowed_drafters))
    return [name for name in names if all(str(part) != "predicted" for part in split_spec(name))]


def _options(service: Service) -> dict[str, Any]:
    settings = service.settings
    return {
        "object": "oneglance",
        "version": version("oneglance"),
        "model": settings.names[0],
        "engine": service.llm.engine.info.to_dict(),
        "context_length": service.context_length,
        "drafter": settings.drafter,
        "drafters": _drafters(settings),
        "k": settings.k,
        "max_output_tokens": settings.max_output_tokens,
        "max_choices": settings.max_choices,
        "max_rounds": MAX_ROUNDS,
    }
