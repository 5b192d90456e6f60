"""The scheduler without its thread: who waits, who runs, and one pass after another.

Nothing here changes a token: by contracts C2 and C3 an answer is a function of the request, and
what was decided for one that has to give way stays decided.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic

from oneglance.completion import Completion, Piece
from oneglance.decode.loop import Decoder
from oneglance.decode.step import Outcome, step
from oneglance.engine.base import Engine, SequenceId
from oneglance.engine.prefix import PrefixStore
from oneglance.errors import CancelledError, CapacityError, DeadlineError
from oneglance.scheduler.batch import PassPlan, allow_drafts, plan_pass
from oneglance.scheduler.book import StatsBook
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.entry import Entry, place_in_line
from oneglance.scheduler.handle import Event, Failure, Handle
from oneglance.scheduler.request import Request
from oneglance.scheduler.room import check_room, make_room, max_positions

_log = logging.getLogger(__name__)


class Core:
    """Requests that wait, requests that run, and the passes that serve them.

    Attributes:
        book: counts.
    """

    def __init__(
        self,
        target: Engine,
        config: SchedulerConfig = SchedulerConfig(),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Begins with nothing to do.

        Args:
            target: answers all requests; nobody else opens sequences in it.
            config: limits.
            clock: seconds, for the order of requests and their deadlines.
        """
        self.book = StatsBook()
        self._target = target
        self._config = config
        self._clock = clock
        self._prefixes = PrefixStore(target, None, config.cached_tokens)
        self._entries: dict[Handle, Entry] = {}
        self._waiting: list[Entry] = []
        self._running: list[Entry] = []
        self._num_added = 0
        self._num_drafted = 0  # in the last pass
        self._full_for: Entry | None = None  # who could not be admitted; nobody has left since

    @property
    def num_waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        """Whether there is any request."""
        return bool(self._entries)

    def check(self, decoder: Decoder, request: Request) -> None:
        """Refuses a request that can't be served; may be called from any thread.

        Raises:
            OneglanceError: the message says why.
        """
        decoder.check(request.prompt, request.params, request.hints)
        check_room(self._target, len(request.prompt))

    def add(self, handles: Sequence[Handle], decoder: Decoder) -> None:
        """Takes requests, which `check` has accepted.

        Args:
            handles: of several requests if they have the same prompt; it is read once for all.
            decoder: answers them.
        """
        decoder = replace(decoder, prefixes=self._prefixes)
        now, leader = self._clock(), None
        for handle in handles:
            request = handle.request
            order = place_in_line(
                now, request.priority, self._config.ageing_seconds, self._num_added
            )
            seconds = request.deadline_seconds
            deadline = None if seconds is None else now + seconds
            entry = Entry(handle, decoder, order, deadline, leader)
            leader = leader or entry
            self._num_added += 1
            self._entries[handle] = entry
            self._wait(entry)
        self.book.note_submitted(len(handles))

    def cancel(self, handle: Handle) -> None:
        """Ends a request, unless it has ended."""
        if handle in self._entries:
            error = CancelledError("The request was cancelled.")
            self._fail(self._entries[handle], error, "cancelled")

    def run_pass(self) -> None:
        """Makes one pass for all that run, after some have left and others have joined."""
        self._give_up_late()
        self._admit()
        plan = self._plan()
        if plan.decoding or plan.chunks:
            try:
                outcomes, failures = step(
                    self._target, [entry.sequence for entry in plan.decoding], plan.chunks
                )
            except Exception as error:
                _log.exception("a pass failed")
                for entry in (*plan.decoding, *plan.reading):
                    self._fail(entry, error)
            else:
                self._take(plan, outcomes, failures)
        self._note_state()

    def close(self, error: Exception) -> None:
        """Ends every request with an error and frees everything."""
        for entry in list(self._entries.values()):
            self._fail(entry, error, "shutdown")
        self._prefixes.clear()
        self._note_state()

    def _give_up_late(self) -> None:
        now = self._clock()
        for entry in list(self._entries.values()):
            if entry.deadline is not None and now >= entry.deadline:
                seconds = entry.request.deadline_seconds
                error = DeadlineError(
                    f"The answer had not ended within deadline_seconds = {seconds}; allow more, or "
                    "ask for fewer tokens."
                )
                self._fail(entry, error, "deadline")

    def _admit(self) -> None:
        """Lets requests join, in their order: nobody passes one that there are no pages for."""
        for entry in list(self._waiting):
            if len(self._running) >= self._config.max_running or entry is self._full_for:
                return
            if not entry.is_led and not self._try_to_admit(entry):
                self._full_for = entry
                return

    def _try_to_admit(self, entry: Entry) -> bool:
        """Admits a request if what is known of it fits the cache beside those that run."""
        handle = self._open(entry)
        num_cached = self._target.length(handle)
        needed = {each.sequence.handle: each.num_rows_left() for each in self._running}
        needed[handle] = len(entry.tokens()) - num_cached
        if not make_room(self._target, self._prefixes, needed) and self._running:
            self._target.close(handle)
            return False
        self._waiting.remove(entry)
        try:
            self._begin(entry, handle)
        except Exception as error:
            self._target.close(handle)
            self._fail(entry, error)
            return True
        if entry.handle.timing.admitted is None:
            entry.handle.timing.admitted = monotonic()
            entry.handle.progress.cached_tokens = num_cached
            self.book.note_admitted(len(entry.request.prompt), num_cached)
        entry.state = "reading" if entry.num_rows_left() > 1 else "decoding"
        insort(self._running, entry, key=lambda each: each.order)
        return True

    def _open(self, entry: Entry) -> SequenceId:
        """A sequence with as much of the request's text as the cache holds."""
        tokens, leader = entry.tokens(), entry.leader
        if entry.answer is None and leader is not None and leader.is_running:
            handle = self._target.fork(leader.sequence.handle)
            self._target.truncate(handle, len(tokens) - 1)
            return handle
        return self._prefixes.open(tokens, entry.request.prefix_group)

    def _begin(self, entry: Entry, handle: SequenceId) -> None:
        request, decoder = entry.request, entry.decoder
        if entry.answer is not None:
            decoder.resume(entry.answer, handle)
        else:
            entry.answer = decoder.open(
                handle,
                request.prompt,
                request.params,
                hints=request.hints,
                max_positions=max_positions(self._target),
            )
            entry.answer.watcher = request.watcher

    def _plan(self) -> PassPlan:
        """The next pass; whoever there are no pages for has to wait again."""
        while True:
            plan = plan_pass(self._running, self._target, self._config, self._num_drafted)
            if make_room(self._target, self._prefixes, plan.num_rows()):
                break
            last = self._running[-1]
            if len(self._running) > 1:
                self._preempt(last)
            else:
                self._fail(last, CapacityError("The cache has no room for the answer."))
        allow_drafts(plan, self._target, self._prefixes)
        return plan

    def _preempt(self, entry: Entry) -> None:
        """Takes a request its pages; it waits where it stood, and is read again."""
        self._running.remove(entry)
        try:
            entry.decoder.suspend(entry.sequence)
        except Exception as error:
            self._end(entry, Failure(error), "error")
            return
        entry.handle.progress.num_preemptions += 1
        self.book.note_preempted()
        self._wait(entry)

    def _wait(self, entry: Entry) -> None:
        entry.state = "waiting"
        insort(self._waiting, entry, key=lambda each: each.order)

    def _take(
        self, plan: PassPlan, outcomes: Sequence[Outcome], failures: Sequence[Exception | None]
    ) -> None:
        """Delivers what a pass decided, and lets those leave that have ended."""
        deliveries = [each for each in outcomes if not isinstance(each, Exception)]
        self._num_drafted = self.book.note_pass(
            sum(map(len, plan.chunks)),
            [each.trace for each in deliveries],
            sum(len(each.tokens) for each in deliveries),
        )
        for entry, outcome in zip(plan.decoding, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._fail(entry, outcome)
            elif outcome.ending is None:
                self._put(entry, Piece(outcome.text, outcome.tokens, outcome.trace, None))
            else:
                answer, decoder = entry.sequence, entry.decoder
                completion = Completion.of(answer, decoder.drafter.name, self._target.info)
                self._release(entry)
                piece = Piece(outcome.text, outcome.tokens, outcome.trace, completion)
                self._end(entry, piece, outcome.ending.finish_reason)
        for entry, failure in zip(plan.reading, failures, strict=True):
            if failure is not None:
                self._fail(entry, failure)
            elif entry.num_rows_left() == 1:
                entry.state = "decoding"
                self._share(entry)

    def _share(self, entry: Entry) -> None:
        """Lets others begin with a prompt that was just read."""
        copy = self._target.fork(entry.sequence.handle)
        self._prefixes.keep(copy, entry.tokens(), entry.request.prefix_group)

    def _fail(self, entry: Entry, error: Exception, how: str = "error") -> None:
        if entry.state == "waiting":
            self._waiting = [each for each in self._waiting if each is not entry]
        else:
            self._release(entry)
        self._end(entry, Failure(error), how)

    def _release(self, entry: Entry) -> None:
        """Frees what a running request holds, whatever its drafter makes of that."""
        self._running.remove(entry)
        try:
            entry.decoder.end(entry.sequence, entry.request.prefix_group)
        except Exception:
            _log.exception("a drafter could not end a request")

    def _end(self, entry: Entry, event: Event, how: str) -> None:
        entry.state = "ended"
        self._full_for = None
        del self._entries[entry.handle]
        self.book.note_ended(how)
        self._put(entry, event)

    def _put(self, entry: Entry, event: Event) -> None:
        try:
            entry.handle.put(event)
        except Exception:
            _log.exception("a listener failed")

    def _note_state(self) -> None:
        num_reading = sum(entry.state == "reading" for entry in self._running)
        self.book.note_state(
            len(self._waiting),
            num_reading,
            len(self._running) - num_reading,
            self._prefixes.num_tokens,
        )
        self.book.note_pages(self._target.page_use)
