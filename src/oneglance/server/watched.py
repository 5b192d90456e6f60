"""Answers whose passes are told as they come: events of `/v1/oneglance/trace`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from oneglance.checkpoints.base import Tokenizer
from oneglance.completion import Completion, Piece
from oneglance.config import SamplingParams
from oneglance.scheduler.handle import Event, Failure
from oneglance.server.admit import Admitted, Watching, admit_chat
from oneglance.server.answer import OnEnd, failure
from oneglance.server.errors import invalid
from oneglance.server.http import DONE, event
from oneglance.server.keys import Client
from oneglance.server.schema.chat import Instruction, UserMessage
from oneglance.server.schema.common import text_of
from oneglance.server.schema.page import TraceRequest
from oneglance.server.service import Service
from oneglance.show.record import Recorder
from oneglance.show.run import shown_request
from oneglance.show.trace import Answer, Pass, Request, Trace
from oneglance.show.trace_json import to_dict


class Watch:
    """Takes one answer's passes from the scheduler's thread into the event loop.

    A pass has to be recorded before the next one is shown, which only the scheduler's own thread
    can make sure of.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begins an answer; to be made in the event loop.

        Args:
            tokenizer: of the target.
        """
        self.recorder = Recorder(tokenizer)
        self._loop = asyncio.get_running_loop()
        self._found: asyncio.Queue[tuple[Piece, Pass] | Failure] = asyncio.Queue()

    def submit(self, service: Service, body: TraceRequest, client: Client) -> Admitted:
        """Submits the answer; as `admit_chat`."""
        return admit_chat(service, body, client, Watching(self.recorder, self._listen))

    async def passes(self) -> AsyncGenerator[tuple[Piece, Pass]]:
        """Each pass with the piece that it gave; the last piece has the completion.

        Raises:
            Exception: of the failure that the answer ended with.
        """
        while True:
            found = await self._found.get()
            if isinstance(found, Failure):
                raise found.error
            yield found
            if found[0].completion is not None:
                return

    def _listen(self, found: Event) -> None:
        record = self.recorder.record
        taken = found if isinstance(found, Failure) else (found, record(found.trace))
        with suppress(RuntimeError):  # the event loop has been closed
            self._loop.call_soon_threadsafe(self._found.put_nowait, taken)


def check_watched(body: TraceRequest) -> None:
    """Refuses what a stream of passes cannot show.

    Raises:
        ApiError: the body has such a field.
    """
    for name in body.LEFT_OUT:
        if getattr(body, name) is not None:
            raise invalid(
                f"{name} is not offered where an answer is watched; leave it out, or use "
                "/v1/chat/completions.",
                name,
                "unsupported_parameter",
            )
    if body.speculation is not None and body.speculation.report is not None:
        raise invalid(
            "Passes are reported in any case here; leave speculation.report out.",
            "speculation.report",
            "unsupported_parameter",
        )


async def trace_events(
    service: Service,
    body: TraceRequest,
    watch: Watch,
    admitted: Admitted,
    request_id: str,
    on_end: OnEnd,
) -> AsyncGenerator[bytes]:
    """The events of a watched answer: what was asked, each pass, what it came to, the end.

    A failure becomes an event of its own, after which nothing comes.
    """
    (handle,) = admitted.handles
    asked = request_shown(service, body, handle.request.params)
    engine = service.llm.engine.info.to_dict()
    try:
        yield event({"object": "oneglance.request", "request": asdict(asked), "engine": engine})
        completion: Completion | None = None
        async for piece, found in watch.passes():
            yield event({"object": "oneglance.pass", "text": piece.text, "pass": asdict(found)})
            completion = piece.completion
        assert completion is not None, "the last piece has the completion"
        service.metrics.note_answer(handle, len(completion.tokens))
        on_end([completion])
        trace = to_dict(_trace(service, asked, completion, watch.recorder.passes))
        del trace["passes"]  # each was an event
        yield event({"object": "oneglance.trace", "trace": trace})
        yield DONE
    except Exception as error:
        yield event(failure(error, request_id).to_dict())


def request_shown(service: Service, body: TraceRequest, params: SamplingParams) -> Request:
    """What was asked, as a trace has it; of a conversation the last question is the prompt."""
    settings, asked = service.settings, body.speculation
    questions = [each for each in body.messages if isinstance(each, UserMessage)]
    systems = [each for each in body.messages if isinstance(each, Instruction)]
    drafter, k, tree_nodes = settings.drafter, settings.k, settings.tree_nodes
    if asked is not None:
        drafter = "none" if asked.off else asked.drafter or drafter
        k = asked.k or k
        tree_nodes = asked.tree or tree_nodes
    return shown_request(
        params,
        prompt=text_of(questions[-1].content) if questions else "",
        system=text_of(systems[0].content) if systems else None,
        raw=False,
        model=body.model,
        drafter=drafter,
        k=str(k),
        tree_nodes=tree_nodes,
    )


def _trace(service: Service, asked: Request, completion: Completion, passes: list[Pass]) -> Trace:
    origin: dict[str, Any] = {"program": f"oneglance serve {service.fingerprint}"}
    return Trace(
        request=asked,
        engine=completion.engine.to_dict(),
        answer=Answer(
            completion.text,
            completion.finish_reason,
            completion.prompt_tokens,
            len(completion.tokens),
            completion.stats.accepted,
        ),
        passes=tuple(passes),
        origin=origin,
    )
