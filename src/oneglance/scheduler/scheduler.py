"""The thread that makes passes, and what other threads may ask of it."""

from __future__ import annotations

import atexit
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import Condition, Thread
from types import TracebackType

from oneglance.decode.loop import Decoder
from oneglance.errors import DrainingError, OverloadError, ParameterError
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.core import Core
from oneglance.scheduler.handle import Handle, Listener
from oneglance.scheduler.request import Request
from oneglance.scheduler.stats import SchedulerStats

MakeDecoder = Callable[[str | None, bool], Decoder]
"""Makes a decoder for the drafter of that name (None: the default one) and for requests that have a
prediction or have none."""

_log = logging.getLogger(__name__)


class Scheduler:
    """Answers many requests at once, each exactly as it would be answered alone.

    Made by `LLM.scheduler`. One thread, the scheduler's own, uses the engine and the drafters from
    then on; all methods may be called from any other thread.
    """

    def __init__(
        self, make_decoder: MakeDecoder, config: SchedulerConfig = SchedulerConfig()
    ) -> None:
        """Starts the thread.

        Args:
            make_decoder: called here for the default drafter, then in the scheduler's thread.
            config: limits of what runs and waits at the same time.

        Raises:
            OneglanceError: the default drafter cannot be made.
        """
        self._make_decoder = make_decoder
        self._config = config
        default = make_decoder(None, False)
        self._decoders: dict[tuple[str | None, bool], Decoder] = {(None, False): default}
        self._core = Core(default.target, config)
        self._changed = Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._num_new = 0  # requests among the tasks
        self._is_busy = False
        self._is_draining = False
        self._is_stopped = False
        self._thread = Thread(target=self._run, name="oneglance-scheduler", daemon=True)
        self._thread.start()
        atexit.register(self.shutdown)  # before threads are torn down in the middle of a pass

    def submit(self, request: Request, listener: Listener | None = None) -> Handle:
        """Takes a request.

        Returns at once, but for the first request that names a drafter, which waits until that is
        made: in asyncio call it with `asyncio.to_thread`, and never from a listener.

        Args:
            request: what is wanted.
            listener: told each event in the scheduler's thread, see `Handle`.

        Raises:
            OverloadError: too many wait already.
            DrainingError: no new requests are taken.
            OneglanceError: the request can't be served; the message says why.
        """
        return self.submit_choices(request, 1, listener)[0]

    def submit_choices(
        self, request: Request, count: int, listener: Listener | None = None
    ) -> list[Handle]:
        """Takes a request for several answers to one prompt, which is evaluated once.

        With a seed they are the answers of its `choice` and the `count` − 1 that follow. None is
        taken if one cannot be.

        Args:
            request: what is wanted.
            count: how many answers, at least 1.
            listener: as for `submit`; told the events of all.

        Raises:
            ParameterError: `count` is not at least 1, or above 1 with a watcher.
            OneglanceError: as for `submit`.
        """
        if count < 1:
            raise ParameterError(f"count = {count} cannot be used; it must be at least 1.")
        if count > 1 and request.watcher is not None:
            raise ParameterError(
                f"A watcher looks at one answer, not at {count}; submit each with one of its own."
            )
        first = request.params.choice
        requests = [
            replace(request, params=replace(request.params, choice=first + i)) for i in range(count)
        ]
        self._check_draining()
        decoder = self._decoder(request)
        for each in requests:
            self._core.check(decoder, each)
        handles = [Handle(each, self._cancel, listener) for each in requests]
        with self._changed:
            self._check_draining()
            if self._num_new + self._core.num_waiting + count > self._config.max_waiting:
                raise OverloadError(
                    f"{self._config.max_waiting} requests wait already, which is max_waiting; "
                    "try again later."
                )
            self._num_new += count
            self._give(partial(self._add, handles, decoder))
        return handles

    def stats(self) -> SchedulerStats:
        """How things are, as of the last pass; a copy."""
        return self._core.book.snapshot()

    def drain(self, timeout: float | None = None) -> bool:
        """Refuses new requests, and waits until those that were taken have ended.

        Args:
            timeout: seconds to wait at most; None: for ever.

        Returns:
            Whether they have.
        """
        with self._changed:
            self._is_draining = True
            self._core.book.note_draining()
            return self._changed.wait_for(self._is_idle, timeout)

    def shutdown(self) -> None:
        """Ends what is still in progress with `DrainingError`, frees everything, ends the thread.

        Not to be called by a listener. May be called twice.
        """
        with self._changed:
            self._is_draining = self._is_stopped = True
            self._changed.notify_all()
        self._thread.join()
        atexit.unregister(self.shutdown)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    def _check_draining(self) -> None:
        if self._is_draining:
            raise DrainingError("The service takes no new requests; ask another one, or later.")

    def _decoder(self, request: Request) -> Decoder:
        """A decoder for a request; drafters are made once, by the thread that uses them."""
        drafting = request.drafting
        key = (drafting.drafter, bool(request.hints.prediction))
        if key not in self._decoders:
            made: Future[Decoder] = Future()
            with self._changed:
                self._check_draining()
                self._give(partial(self._make, key, made))
            self._decoders[key] = made.result()
        decoder = self._decoders[key]
        return replace(
            decoder,
            k=decoder.k if drafting.k is None else drafting.k,
            tree_nodes=decoder.tree_nodes if drafting.tree_nodes is None else drafting.tree_nodes,
        )

    def _make(self, key: tuple[str | None, bool], made: Future[Decoder]) -> None:
        try:
            made.set_result(self._make_decoder(*key))
        except Exception as error:
            made.set_exception(error)

    def _add(self, handles: list[Handle], decoder: Decoder) -> None:
        with self._changed:
            self._num_new -= len(handles)
        self._core.add(handles, decoder)

    def _cancel(self, handle: Handle) -> None:
        with self._changed:
            if not self._is_stopped:
                self._give(partial(self._core.cancel, handle))

    def _give(self, task: Callable[[], None]) -> None:
        """Gives the thread something to do before the next pass; the lock is held."""
        self._tasks.append(task)
        self._changed.notify_all()

    def _is_idle(self) -> bool:
        return not (self._is_busy or self._tasks or self._core.has_work)

    def _run(self) -> None:
        """What the thread does: tasks, a pass, and so on until it is stopped."""
        why = DrainingError("The service was shut down before the answer had ended.")
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_stopped or not self._is_idle())
                    tasks = list(self._tasks)
                    self._tasks.clear()
                    is_last, self._is_busy = self._is_stopped, True
                for task in tasks:
                    task()
                if is_last:
                    return
                self._core.run_pass()
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()
        except Exception as error:
            _log.exception("the scheduler failed")
            why = DrainingError(f"The service failed ({error}); it has to be started again.")
        finally:
            self._end(why)

    def _end(self, why: DrainingError) -> None:
        with self._changed:
            self._is_draining = self._is_stopped = True
            tasks = list(self._tasks)
            self._tasks.clear()
        for task in tasks:
            task()
        self._core.close(why)
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
