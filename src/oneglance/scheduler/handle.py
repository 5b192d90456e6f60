"""What a user holds of a request in progress: its pieces as they come, and how to cancel it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition
from time import monotonic

from oneglance.completion import Completion, Piece
from oneglance.errors import DeadlineError
from oneglance.scheduler.request import Request


@dataclass(frozen=True)
class Failure:
    """The end of a request that has no whole answer.

    Attributes:
        error: why. A `ServiceError` for what the scheduler decided (cancelled, deadline, shut
            down), another `OneglanceError` for what the request itself is to blame for, anything
            else for a fault of ours.
    """

    error: Exception


Event = Piece | Failure
"""The last one of a request is a piece with a completion, or a failure."""

Listener = Callable[[Event], None]


@dataclass
class Timing:
    """When things happened to a request, in seconds of `time.monotonic`; None: not yet.

    Attributes:
        submitted: it was accepted.
        admitted: it first took part in a pass.
        first_token: its first piece with a token came.
        ended: its last event came.
    """

    submitted: float
    admitted: float | None = None
    first_token: float | None = None
    ended: float | None = None


@dataclass
class Progress:
    """What has been spent on a request so far.

    Attributes:
        cached_tokens: tokens of its prompt that need not be evaluated, since they were cached when
            it was first admitted.
        num_preemptions: how often it had to give up its pages and was begun again.
    """

    cached_tokens: int = 0
    num_preemptions: int = 0


class Handle:
    """A request in progress. All methods may be called from any thread.

    Its pieces are taken once, by one reader: by iterating (a thread that waits) or by `stream` (in
    asyncio). `result` takes none, and a listener gets them besides, in the scheduler's thread.

    Attributes:
        request: what was asked.
        timing: when things happened.
        progress: what was spent on it.
    """

    def __init__(
        self, request: Request, cancel: Callable[[Handle], None], listener: Listener | None = None
    ) -> None:
        """Is made by `Scheduler.submit`.

        Args:
            request: what was asked.
            cancel: tells the scheduler to end it.
            listener: called with each event, in the scheduler's thread; it must return soon and
                raise nothing.
        """
        self.request = request
        self.timing = Timing(monotonic())
        self.progress = Progress()
        self._cancel = cancel
        self._listener = listener
        self._events: deque[Event] = deque()
        self._last: Event | None = None
        self._changed = Condition()
        self._wakers: list[Callable[[], None]] = []

    @property
    def is_ended(self) -> bool:
        """Whether the last event has come."""
        return self._last is not None

    def cancel(self) -> None:
        """Gives the request up: it leaves before the next pass, and all it holds is freed.

        Its last event is a failure with `CancelledError`, unless it has ended before.
        """
        self._cancel(self)

    def put(self, event: Event) -> None:
        """Delivers an event; called by the scheduler only."""
        now = monotonic()
        if isinstance(event, Piece) and event.tokens and self.timing.first_token is None:
            self.timing.first_token = now
        is_last = isinstance(event, Failure) or event.completion is not None
        if is_last:
            self.timing.ended = now
        with self._changed:
            self._events.append(event)
            self._last = event if is_last else None
            wakers = list(self._wakers)
            self._changed.notify_all()
        for wake in wakers:
            with suppress(RuntimeError):  # its event loop has been closed
                wake()
        if self._listener is not None:
            self._listener(event)

    def __iter__(self) -> Generator[Piece]:
        """Its pieces as they come, waiting for them; the last one has the completion.

        Raises:
            Exception: of the failure it ended with.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._events)
                event = self._events.popleft()
            piece = _piece_of(event)
            yield piece
            if piece.completion is not None:
                return

    async def stream(self) -> AsyncGenerator[Piece]:
        """The same in asyncio; leaving before the last piece cancels the request.

        So does closing it, but only once it was asked for a piece: before that, use `cancel`.
        """
        loop, awake = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(awake.set)

        with self._changed:
            self._wakers.append(wake)
        try:
            while True:
                awake.clear()
                while self._events:
                    piece = _piece_of(self._events.popleft())
                    yield piece
                    if piece.completion is not None:
                        return
                await awake.wait()
        finally:
            self._wakers.remove(wake)
            self.cancel()

    def result(self, timeout: float | None = None) -> Completion:
        """Waits for the whole answer.

        Args:
            timeout: seconds to wait at most; None: for ever.

        Raises:
            DeadlineError: it took longer; the request goes on.
            Exception: of the failure it ended with.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.is_ended, timeout)
            last = self._last
            if last is None:
                raise DeadlineError(
                    f"The answer has not ended within {timeout} s; wait longer, or cancel it."
                )
        completion = _piece_of(last).completion
        assert completion is not None, "the last piece has the completion"
        return completion


def _piece_of(event: Event) -> Piece:
    if isinstance(event, Failure):
        raise event.error
    return event
