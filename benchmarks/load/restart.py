"""Ends a server while it streams, and starts it again at the same port."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Semaphore

from benchmarks.load.checks import assemble, check_answer
from benchmarks.load.client import BrokenAnswerError, encoded, post, posted, read_events
from benchmarks.load.own_server import OwnServer
from benchmarks.load.questions import ExpectedAnswer, LoadQuestion

BEGIN_SECONDS = 300.0
END_SECONDS = 120.0
"""How long all streams may take to begin, and the process to end."""
DRAINED = 503


@dataclass
class RestartReport:
    """What happened.

    Attributes:
        streams: in flight when the server was told to end.
        finished: of these, those that came to their right end.
        refused: new requests that were told that the server is shutting down, while it was.
        seconds_to_end: from SIGTERM to the end of the process.
        problems: what was wrong, in words.
    """

    streams: int
    finished: int = 0
    refused: int = 0
    seconds_to_end: float | None = None
    problems: list[str] = field(default_factory=list)


def restart_under_load(
    server: OwnServer, question: LoadQuestion, expected: ExpectedAnswer, streams: int
) -> RestartReport:
    """Tells a running server to end in the middle of streams, then starts it again.

    Args:
        server: is running again afterwards.
        question: with a long answer, which all streams ask.
        expected: its answer.
        streams: how many.
    """
    report = RestartReport(streams)
    begun = Semaphore(0)
    with ThreadPoolExecutor(streams) as threads:
        reading = [
            threads.submit(read_stream, server.port, question, expected, begun)
            for _ in range(streams)
        ]
        if all(begun.acquire(timeout=BEGIN_SECONDS) for _ in reading):
            _end(server, question, report, reading)
        else:
            report.problems.append("not all streams have begun")
    for stream in reading:
        problems = stream.result()
        report.finished += not problems
        report.problems += [f"a stream in flight: {each}" for each in problems]
    server.close()
    with server:
        _check_again(server, question, expected, report)
    return report


def _end(
    server: OwnServer,
    question: LoadQuestion,
    report: RestartReport,
    reading: Sequence[Future[list[str]]],
) -> None:
    """Tells the server to end, and sends new requests until it has."""
    started = time.monotonic()
    server.process.terminate()
    while not all(stream.done() for stream in reading):
        if time.monotonic() > started + END_SECONDS:
            break
        send_too_late(server.port, question, report)
        time.sleep(0.02)
    code = server.process.wait(END_SECONDS)
    if code is None:
        report.problems.append(f"the process has not ended {END_SECONDS:.0f} s after SIGTERM")
        return
    report.seconds_to_end = time.monotonic() - started
    if code != 0:
        report.problems.append(f"the process ended with code {code}")
    if not report.refused:
        report.problems.append("no new request was told that the server is shutting down")


def send_too_late(port: int, question: LoadQuestion, report: RestartReport) -> None:
    """A new request is refused with 503; the process may end between two of them."""
    try:
        status, _ = post(port, question.path, encoded(question.body()))
    except BrokenAnswerError:
        return  # the last stream may have ended since it was looked at
    if status == DRAINED:
        report.refused += 1
    else:
        report.problems.append(f"a new request got the status {status} after SIGTERM")


def read_stream(
    port: int, question: LoadQuestion, expected: ExpectedAnswer, begun: Semaphore
) -> list[str]:
    """Reads a stream to its end; returns what is wrong with it. `begun` is told of its text."""
    events = []
    body = encoded(question.body(stream=True, stream_options={"include_usage": True}))
    try:
        with posted(port, question.path, body) as response, closing(read_events(response)) as it:
            for event in it:
                events.append(event)
                if len(events) == 2:  # the first one has no text yet
                    begun.release()
    except BrokenAnswerError as error:
        return [str(error)]
    return check_answer(assemble(events), expected)


def _check_again(
    server: OwnServer, question: LoadQuestion, expected: ExpectedAnswer, report: RestartReport
) -> None:
    problems = read_stream(server.port, question, expected, Semaphore(0))
    report.problems += [f"after the restart: {each}" for each in problems]
