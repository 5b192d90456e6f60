"""What HTTP adds: clients that leave, and streams of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class ClientLeftError(Exception):
    """The client has closed the connection; nobody is there to be answered."""


async def unless_left(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Does some work, and gives it up at once when the client leaves.

    Args:
        receive: of the request, whose body has been read.
        work: what takes a while; it is cancelled where it stands.

    Raises:
        ClientLeftError: the client left first.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_leaving(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeftError
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await working  # whatever it holds is released before the request counts as ended


async def _leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(data: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + encoded(data) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def encoded(data: dict[str, Any]) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


class JsonAnswer(Response):
    """An answer in one piece."""

    media_type = "application/json"

    def __init__(self, data: dict[str, Any]) -> None:
        """Takes the object."""
        super().__init__(encoded(data))


class EventStream(Response):
    """Server-sent events, as they come. They are given up at once when the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], release: Callable[[], None]) -> None:
        """Takes the events, and what to do in any case when it is over."""
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends the events."""

        async def pour() -> None:
            try:
                async for data in self._events:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            finally:
                await self._events.aclose()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        begin = {"type": "http.response.start", "status": self.status_code}
        try:
            await send({**begin, "headers": self.raw_headers})
            with suppress(ClientLeftError):
                await unless_left(receive, pour())
        finally:
            self._release()
