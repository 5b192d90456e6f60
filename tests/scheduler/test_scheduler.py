"""The scheduler's thread: asked from many threads and from asyncio, drained, shut down, failing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import pytest

from oneglance.completion import Piece
from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.drafters.base import Drafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, PassOutput
from oneglance.errors import (
    CancelledError,
    DeadlineError,
    DrainingError,
    OverloadError,
    ParameterError,
    UnsupportedError,
)
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.handle import Event, Failure
from oneglance.scheduler.request import Drafting, Request
from oneglance.scheduler.scheduler import Scheduler
from tests.scheduler.stage import VOCABULARY, PagedEngine, V, alone

LONG = SamplingParams(max_tokens=40)
SHORT = SamplingParams(max_tokens=5)


class Gate(PagedEngine):
    """Lets a pass through whenever it is told to, or all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = threading.Semaphore(0)
        self.is_open = False
        self.is_broken = False

    def forward(self, batch: Batch) -> PassOutput:
        while not self.is_open and not self.permits.acquire(timeout=0.01):
            pass
        return super().forward(batch)

    def num_missing_pages(self, num_rows: Any) -> int:
        assert not self.is_broken, "the book of pages is broken"
        return super().num_missing_pages(num_rows)


def scheduler_of(engine: PagedEngine, config: SchedulerConfig = SchedulerConfig()) -> Scheduler:
    drafters: dict[str | None, Drafter[Any]] = {
        None: NoDrafter(),
        "ngram": NgramDrafter(min_ngram=1),
    }

    def make_decoder(name: str | None, has_prediction: bool) -> Decoder:
        assert not has_prediction
        if name not in drafters:
            raise UnsupportedError(f"No drafter {name!r}.")
        assert name is None or threading.current_thread().name == "oneglance-scheduler"
        return Decoder(engine, VOCABULARY, drafters[name])

    return Scheduler(make_decoder, config)


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(4000):
        if condition():
            return
        sleep(0.005)
    raise AssertionError("that never happened")


@pytest.fixture
def engine() -> Gate:
    return Gate()


@pytest.fixture
def scheduler(engine: Gate) -> Generator[Scheduler]:
    with scheduler_of(engine, SchedulerConfig(max_running=4, max_waiting=8)) as made:
        yield made
        engine.is_open = True
    assert engine.num_open == engine.page_use.num_used == 0


def test_many_threads_get_the_answers_that_they_would_get_alone(
    engine: Gate, scheduler: Scheduler
) -> None:
    engine.is_open = True

    def ask(number: int) -> bool:
        params = SamplingParams(max_tokens=1 + number % 12, temperature=1.0, seed=number)
        prompt = tuple((number + i) % V for i in range(1 + number % 9))
        drafting = Drafting("ngram" if number % 2 else None, k=1 + number % 4)
        handle = scheduler.submit(Request(prompt, params, drafting))
        tokens = [token.token_id for piece in handle for token in piece.tokens]
        assert tuple(tokens) == handle.result().token_ids
        return tokens == alone(prompt, params)

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(ask, range(40)))
    assert scheduler.stats().ended == {"length": 40}


def test_streams_of_asyncio_run_together(engine: Gate, scheduler: Scheduler) -> None:
    engine.is_open = True

    async def ask(number: int) -> tuple[str, str]:
        handle = scheduler.submit(Request((number % V, 1), LONG))
        pieces = [piece async for piece in handle.stream()]
        assert pieces[-1].completion is not None
        return "".join(piece.text for piece in pieces), pieces[-1].completion.text

    async def ask_all() -> list[tuple[str, str]]:
        return await asyncio.gather(*(ask(number) for number in range(6)))

    for number, (text, whole) in enumerate(asyncio.run(ask_all())):
        answer = bytes(97 + token for token in alone((number % V, 1), LONG)).decode()
        assert text == whole == answer


def test_leaving_a_stream_cancels_its_request(engine: Gate, scheduler: Scheduler) -> None:
    engine.is_open = True

    async def leave() -> None:
        handle = scheduler.submit(Request((1,), LONG))
        stream = handle.stream()
        await anext(stream)
        await stream.aclose()
        engine.is_open = True  # not before, or the answer may have ended when it is left
        with pytest.raises(CancelledError):
            await asyncio.to_thread(handle.result, 10)

    engine.is_open = False
    engine.permits.release(2)
    asyncio_thread = threading.Thread(target=asyncio.run, args=(leave(),))
    asyncio_thread.start()
    asyncio_thread.join()
    assert scheduler.drain(10)
    assert scheduler.stats().ended.total() == 1


def test_cancelled_before_its_first_pass(engine: Gate, scheduler: Scheduler) -> None:
    first = scheduler.submit(Request((1,), SHORT))
    second = scheduler.submit(Request((2,), SHORT))
    second.cancel()
    engine.is_open = True
    with pytest.raises(CancelledError):
        second.result(10)
    assert list(first.result(10).token_ids) == alone((1,), SHORT)


def test_too_many_are_refused_and_room_comes_back(engine: Gate) -> None:
    config = SchedulerConfig(max_running=1, max_waiting=2)
    with scheduler_of(engine, config) as scheduler:
        handles = [scheduler.submit(Request((1,), SHORT))]
        wait_until(
            lambda: scheduler.stats().num_submitted >= 1
        )  # it waits no more once the pass has begun
        engine.permits.release(1)
        wait_until(lambda: scheduler.stats().num_passes >= 1)
        handles += [scheduler.submit(Request((1,), SHORT)) for _ in range(2)]
        with pytest.raises(OverloadError, match="2 requests wait already"):
            scheduler.submit(Request((1,), SHORT))
        with pytest.raises(OverloadError):
            scheduler.submit_choices(Request((1,), SHORT), 3)
        engine.is_open = True
        for handle in handles:
            handle.result(10)
        assert scheduler.submit(Request((1,), SHORT)).result(10).tokens


def test_choices_are_those_of_the_seed(engine: Gate, scheduler: Scheduler) -> None:
    engine.is_open = True
    params = SamplingParams(max_tokens=12, temperature=1.0, seed=4)
    handles = scheduler.submit_choices(Request((1, 2, 3), params), 3)
    for choice, handle in enumerate(handles):
        own = SamplingParams(max_tokens=12, temperature=1.0, seed=4, choice=choice)
        assert list(handle.result(10).token_ids) == alone((1, 2, 3), own)
    with pytest.raises(ParameterError, match="count = 0"):
        scheduler.submit_choices(Request((1,), params), 0)


def test_bad_requests_are_refused_by_submit(scheduler: Scheduler) -> None:
    with pytest.raises(UnsupportedError, match="No drafter 'x'"):
        scheduler.submit(Request((1,), SHORT, Drafting("x")))
    with pytest.raises(ParameterError, match="token id 77"):
        scheduler.submit(Request((77,), SHORT))
    with pytest.raises(ParameterError, match="k = 0"):
        scheduler.submit(Request((1,), SHORT, Drafting("ngram", k=0)))
    assert scheduler.stats().num_submitted == 0


def test_draining_finishes_what_runs_and_takes_nothing_new(
    engine: Gate, scheduler: Scheduler
) -> None:
    handles = [scheduler.submit(Request((number % V,), SHORT)) for number in range(6)]
    assert not scheduler.drain(0.01)
    assert scheduler.stats().is_draining
    with pytest.raises(DrainingError):
        scheduler.submit(Request((1,), SHORT))
    engine.is_open = True
    assert scheduler.drain(10)
    assert all(handle.is_ended and handle.result().tokens for handle in handles)


def test_shutting_down_ends_what_is_in_progress(engine: Gate) -> None:
    scheduler = scheduler_of(engine, SchedulerConfig(max_running=2))
    handles = [scheduler.submit(Request((1, 2), LONG)) for _ in range(4)]
    engine.permits.release(3)
    wait_until(lambda: scheduler.stats().num_passes >= 3)
    threading.Timer(0.05, lambda: setattr(engine, "is_open", True)).start()
    scheduler.shutdown()
    scheduler.shutdown()
    for handle in handles:
        handle.cancel()  # comes too late, and does no harm
        with pytest.raises(DrainingError):
            handle.result(0)
    assert engine.num_open == engine.page_use.num_used == 0


def test_a_scheduler_that_fails_tells_everybody(
    engine: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = scheduler_of(engine)
    handle = scheduler.submit(Request((1, 2), LONG))
    engine.permits.release(1)
    engine.is_broken = True
    with pytest.raises(DrainingError, match="the book of pages is broken"):
        handle.result(10)
    assert "the scheduler failed" in caplog.text
    with pytest.raises(DrainingError):
        scheduler.submit(Request((1,), SHORT))
    scheduler.shutdown()


def test_listeners_are_told_everything_and_may_fail(engine: Gate, scheduler: Scheduler) -> None:
    engine.is_open = True
    events: list[Event] = []
    handle = scheduler.submit(Request((1,), SHORT), events.append)
    completion = handle.result(10)
    assert scheduler.drain(10)
    assert [event for event in events if isinstance(event, Failure)] == []
    pieces = [event for event in events if isinstance(event, Piece)]
    assert "".join(piece.text for piece in pieces) == completion.text


def test_a_listener_that_fails_does_no_harm(
    engine: Gate, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Event) -> None:
        raise ValueError(f"cannot take {event}")

    engine.is_open = True
    answer = scheduler.submit(Request((1,), SHORT), fail).result(10)
    assert list(answer.token_ids) == alone((1,), SHORT)
    assert scheduler.drain(10)
    assert "a listener failed" in caplog.text


def test_waiting_for_an_answer_has_an_end(engine: Gate, scheduler: Scheduler) -> None:
    handle = scheduler.submit(Request((1,), SHORT))
    with pytest.raises(DeadlineError, match=r"within 0\.01 s"):
        handle.result(0.01)
    engine.is_open = True
    assert handle.result(10).tokens
