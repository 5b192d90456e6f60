"""What a server holds: pages of its cache when nothing runs, and memory while it works."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.load.client import encoded, post
from benchmarks.load.own_server import OwnServer
from benchmarks.load.questions import COMPLETION, ExpectedAnswer, LoadQuestion
from oneglance.bench.machine import held_memory

IDLE_SECONDS = 120.0
KEPT_SHARE = 0.5
"""Part of the tokens of all questions and answers that the server may keep as prefixes."""


@dataclass(frozen=True)
class Held:
    """What a server holds when nothing runs.

    Attributes:
        pages: of its cache in use.
        cached_tokens: of kept prefixes, which need the pages.
        in_progress: requests that still wait or run; there must be none.
    """

    pages: int
    cached_tokens: int
    in_progress: int


def kept_tokens(expected: Sequence[ExpectedAnswer]) -> int:
    """Tokens of prefixes that a server should keep for `settle` to renew all of them."""
    total = sum(each.prompt_tokens + len(each.token_ids) for each in expected)
    return int(KEPT_SHARE * total)


def settle(server: OwnServer, questions: Sequence[LoadQuestion]) -> Held:
    """Asks every question, one after the other, and tells what is held then.

    The server keeps fewer tokens than these have, and lets go of what was used longest ago: so
    what it keeps then depends on these questions alone, and so do the pages, unless some are lost.

    Raises:
        BrokenAnswerError: the server failed.
    """
    server.wait_until_idle(IDLE_SECONDS)
    for question in questions:
        post(server.port, question.path, encoded(question.body()))
    server.wait_until_idle(IDLE_SECONDS)
    gauges = server.gauges()
    return Held(gauges.pages_used, gauges.cached_tokens, gauges.num_in_progress)


def short_questions(count: int) -> list[LoadQuestion]:
    """Texts that begin differently, with answers of two tokens."""
    sampling = {"max_tokens": 2, "temperature": 0.0}
    return [
        LoadQuestion(f"short {index}", COMPLETION, f"{index} is a number. " * 8, sampling)
        for index in range(count)
    ]


@dataclass
class MemoryWatch:
    """Looks at the memory of a process at equal distances in time. A context manager.

    Attributes:
        pid: of the process.
        every_seconds: between two looks.
        samples: bytes.
    """

    pid: int
    every_seconds: float
    samples: list[int] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> MemoryWatch:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(self.every_seconds):
            held = held_memory(self.pid)
            if held is not None:
                self.samples.append(held)
