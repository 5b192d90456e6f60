"""The thread that runs passes, and what other threads may ask of it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from oneglance.decode.loop import Decoder
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.handle import Handle, Listener
from oneglance.scheduler.request import Drafting, Request
from oneglance.scheduler.stats import SchedulerStats

MakeDecoder = Callable[[Drafting, bool], Decoder]
"""Makes a decoder for a request's drafting, with whether it has a prediction; called in the
scheduler's thread only."""


class Scheduler:
    """Answers many requests at once, each exactly as it would be answered alone.

    Made by `LLM.scheduler`. One thread, the scheduler's own, uses the engine and the drafters from
    then on; all methods may be called from any other thread.
    """

    def __init__(
        self, make_decoder: MakeDecoder, config: SchedulerConfig = SchedulerConfig()
    ) -> None:
        """Starts the thread."""
        raise NotImplementedError

    def submit(self, request: Request, listener: Listener | None = None) -> Handle:
        """Takes a request.

        May wait for the end of a pass, and, the first time that a drafter is named, until it is
        made: in asyncio call it with `asyncio.to_thread`.

        Args:
            request: what is wanted.
            listener: told each event in the scheduler's thread, see `Handle`.

        Raises:
            OverloadError: too many wait already.
            DrainingError: no new requests are taken.
            OneglanceError: the request can't be served; the message says why.
        """
        raise NotImplementedError

    def submit_choices(
        self, request: Request, count: int, listener: Listener | None = None
    ) -> list[Handle]:
        """Takes a request for several answers to one prompt, which is evaluated once.

        With a seed they are the answers of `choice` 0 to `count` − 1. None is taken if one cannot
        be.
        """
        raise NotImplementedError

    def stats(self) -> SchedulerStats:
        """How things are, as of the last pass."""
        raise NotImplementedError

    def drain(self, timeout: float | None = None) -> bool:
        """Refuses new requests, and waits until those that were taken have ended.

        Returns:
            Whether they have, within `timeout` seconds.
        """
        raise NotImplementedError

    def shutdown(self) -> None:
        """Ends what is still in progress with `DrainingError`, frees everything, ends the thread.

        May be called twice.
        """
        raise NotImplementedError

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()
