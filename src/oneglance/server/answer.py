"""Waits for answers: all of them, or piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from oneglance.completion import Completion, Piece
from oneglance.errors import CancelledError, DeadlineError, DrainingError, OneglanceError
from oneglance.scheduler.handle import Handle
from oneglance.server.admit import RETRY_SECONDS, Admitted
from oneglance.server.errors import ApiError, draining, internal, invalid
from oneglance.server.http import DONE, event
from oneglance.server.keys import Client
from oneglance.server.logs import log_fault
from oneglance.server.schema.common import SharedFields
from oneglance.server.service import Service
from oneglance.server.writers import Part, Writer

Body = TypeVar("Body", bound=SharedFields)
OnEnd = Callable[[list[Completion]], None]
"""Told the whole answers, once they are there."""


async def admit(
    submit: Callable[[Service, Body, Client], Admitted],
    service: Service,
    body: Body,
    client: Client,
) -> Admitted:
    """Submits a request outside the event loop; one whose client leaves meanwhile is cancelled.

    Raises:
        ApiError: it can't be served.
    """
    loop = asyncio.get_running_loop()
    submitting = loop.run_in_executor(service.workers, submit, service, body, client)
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        submitting.add_done_callback(_cancel_late)
        raise


def _cancel_late(submitting: asyncio.Future[Admitted]) -> None:
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancel()


async def whole_answers(service: Service, admitted: Admitted, request_id: str) -> list[Completion]:
    """Waits until all answers are there.

    Raises:
        ApiError: one has failed; the others are given up.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(_last(handle)) for handle in admitted.handles]
    except ExceptionGroup as errors:
        raise failure(errors.exceptions[0], request_id) from None
    completions = [task.result() for task in waiting]
    for handle, completion in zip(admitted.handles, completions, strict=True):
        service.metrics.note_answer(handle, len(completion.tokens))
    return completions


async def events(
    service: Service, writer: Writer, admitted: Admitted, request_id: str, on_end: OnEnd
) -> AsyncGenerator[bytes]:
    """The events of a stream: chunks as pieces come, then the usage if asked for, then the end.

    A failure becomes an event of its own, after which nothing comes.
    """
    completions: list[Completion | None] = [None] * len(admitted.handles)
    merged = _merged(admitted.handles)
    try:
        for index in range(len(admitted.handles)):
            opening = writer.begin(index)
            if opening is not None:
                yield event(writer.chunk(opening))
        async for index, piece in merged:
            part = Part(piece.text, piece.tokens, piece.completion)
            for choice in writer.choices(index, part):
                yield event(writer.chunk(choice))
            if piece.completion is not None:
                completions[index] = piece.completion
                service.metrics.note_answer(admitted.handles[index], len(piece.completion.tokens))
        whole = [completion for completion in completions if completion is not None]
        on_end(whole)
        if writer.wants_usage:
            yield event(writer.usage_chunk(whole))
        yield DONE
    except Exception as error:
        yield event(failure(error, request_id).to_dict())
    finally:
        await merged.aclose()


async def _merged(handles: list[Handle]) -> AsyncGenerator[tuple[int, Piece]]:
    """The pieces of several answers, in the order in which they come."""
    pieces: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()

    async def pour(index: int, handle: Handle) -> None:
        try:
            async with aclosing(handle.stream()) as stream:
                async for piece in stream:
                    pieces.put_nowait((index, piece))
        except Exception as error:
            pieces.put_nowait((index, error))

    tasks = [asyncio.ensure_future(pour(*pair)) for pair in enumerate(handles)]
    num_open = len(tasks)
    try:
        while num_open:
            index, piece = await pieces.get()
            if isinstance(piece, Exception):
                raise piece
            num_open -= piece.completion is not None
            yield index, piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _last(handle: Handle) -> Completion:
    async with aclosing(handle.stream()) as stream:
        async for piece in stream:
            if piece.completion is not None:
                return piece.completion
    raise AssertionError("an answer ends with its completion")


def failure(error: BaseException, request_id: str) -> ApiError:
    """What a client is told of an answer that came to no end."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, DeadlineError):
        return ApiError(
            504,
            str(error),
            code="deadline_exceeded",
            kind="server_error",
            headers={"x-should-retry": "false"},
        )
    if isinstance(error, (DrainingError, CancelledError)):
        return draining(RETRY_SECONDS)
    if isinstance(error, OneglanceError):
        return invalid(str(error), None)
    log_fault("answer failed", error, request=request_id)
    return internal(request_id)
