"""What every request passes first: its id, its key, the size of its body, and the log."""

from __future__ import annotations

import time
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneglance.server.admit import RETRY_SECONDS
from oneglance.server.errors import ApiError, draining, too_large, unauthorized
from oneglance.server.logs import log, log_fault
from oneglance.server.page import ASKED_PATHS, PAGE_PATHS
from oneglance.server.service import Service

OPEN_PATHS = ("/health", "/ready")
"""Paths that need no key."""

KNOWN_PATHS = (
    *OPEN_PATHS,
    "/metrics",
    "/openapi.json",
    "/v1/models",
    "/v1/completions",
    "/v1/chat/completions",
    *PAGE_PATHS,
    *ASKED_PATHS,
)

CLIENT_LEFT = 499
"""What the log and the metrics say of a request whose client left before a response began."""


class Guard:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        """Takes the routes."""
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, receive, send, self._service.settings.max_body_bytes)
        self._service.traffic.num_open += 1
        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal.response()(scope, visit.receive, visit.send)
            else:
                await self._app(scope, visit.receive, visit.send)
        except Exception as error:  # the routes have answered it with 500
            log_fault("request failed", error, request=visit.id)
        finally:
            self._service.traffic.num_open -= 1
            self._note(scope, visit)

    def _refusal(self, scope: Scope) -> ApiError | None:
        path = scope["path"]
        if path in OPEN_PATHS or (path in PAGE_PATHS and self._service.settings.page):
            return None
        client = self._service.client_of(Headers(scope=scope).get("authorization"))
        if client is None:
            return unauthorized()
        scope["state"]["client"] = client
        if self._service.traffic.is_draining and path.startswith("/v1/"):
            return draining(RETRY_SECONDS)
        return None

    def _note(self, scope: Scope, visit: _Visit) -> None:
        path = scope["path"]
        self._service.metrics.note_response(path if path in KNOWN_PATHS else "other", visit.status)
        if path in (*OPEN_PATHS, "/metrics") and visit.status == 200:
            return
        state = scope["state"]
        client = state.get("client")
        log(
            "request",
            request=visit.id,
            client=None if client is None else client.name or None,
            method=scope["method"],
            path=path,
            status=visit.status,
            seconds=round(time.perf_counter() - visit.started, 4),
            **state.get("facts", {}),
        )


class _Visit:
    """One request on its way through: counts its body, and sees its response begin."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_body_bytes: int) -> None:
        self.id = f"req_{uuid4().hex}"
        self.status = CLIENT_LEFT
        self.started = time.perf_counter()
        self._receive = receive
        self._send = send
        self._room = max_body_bytes
        self._max_body_bytes = max_body_bytes
        scope["state"] = {**scope.get("state", {}), "request_id": self.id, "facts": {}}
        declared = Headers(scope=scope).get("content-length", "0")
        self._is_too_large = declared.isdecimal() and int(declared) > max_body_bytes

    async def receive(self) -> Message:
        """The next message of the client.

        Raises:
            ApiError: the body is too large.
        """
        if self._is_too_large:
            raise too_large(self._max_body_bytes)
        message = await self._receive()
        if message["type"] == "http.request":
            self._room -= len(message.get("body", b""))
            if self._room < 0:
                raise too_large(self._max_body_bytes)
        return message

    async def send(self, message: Message) -> None:
        """Sends a message to the client, the request's id with its first one."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(raw=message["headers"])["x-request-id"] = self.id
        await self._send(message)
