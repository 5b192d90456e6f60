"""Sends many bodies that no client should send; none may be answered with 500, or not at all."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from benchmarks.load.bodies import VALID, Fuzzed, fuzz_bodies
from benchmarks.load.checks import check_refusal
from benchmarks.load.client import BrokenAnswerError, post

CLIENTS = 4
SHOWN = 300


@dataclass
class FuzzReport:
    """What became of the bodies.

    Attributes:
        statuses: answers by kind of body and status, such as "broken text 400".
        problems: what was wrong, in words, with the body.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def num_bodies(self) -> int:
        """How many were sent."""
        return sum(self.statuses.values())


def fuzz(port: int, count: int, seed: int) -> FuzzReport:
    """Sends bodies by a few clients at once, and checks every answer."""
    report, lock = FuzzReport(), threading.Lock()
    bodies = fuzz_bodies(count, seed)

    def send_all() -> None:
        for body in _shared(bodies, lock):
            status, problems = send(port, body)
            with lock:
                report.statuses[f"{body.kind} {status}"] += 1
                report.problems += problems

    with ThreadPoolExecutor(CLIENTS) as clients:
        for done in [clients.submit(send_all) for _ in range(CLIENTS)]:
            done.result()
    return report


def send(port: int, body: Fuzzed) -> tuple[str, list[str]]:
    """Sends one body; returns the status, or "none", and what is wrong with the answer."""
    try:
        status, content = post(port, body.path, body.content)
    except BrokenAnswerError as error:
        return "none", [_finding(body, str(error))]
    problems = check_response(status, content)
    if body.kind == VALID and status != 200:
        problems.append(f"it is refused: {content[:SHOWN]!r}")
    return str(status), [_finding(body, each) for each in problems]


def check_response(status: int, content: bytes) -> list[str]:
    """A body is answered, with JSON or with a whole stream, or refused."""
    if status != 200:
        return check_refusal(status, content)
    if content.startswith(b"data: "):
        return [] if content.endswith(b"data: [DONE]\n\n") else ["the stream breaks off"]
    try:
        json.loads(content)
    except ValueError:
        return ["the answer is no JSON"]
    return []


def _shared(bodies: Iterator[Fuzzed], lock: threading.Lock) -> Iterator[Fuzzed]:
    """Takes bodies from an iterator that several threads share."""
    while True:
        with lock:
            body = next(bodies, None)
        if body is None:
            return
        yield body


def _finding(body: Fuzzed, problem: str) -> str:
    return f"{body.kind} to {body.path}: {problem}; the body is {body.content[:SHOWN]!r}"
