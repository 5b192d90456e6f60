"""Many clients at once, some of them rude, for a while; every answer is checked."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.load.bodies import broken_body
from benchmarks.load.checks import assemble, check_answer, check_beginning, check_refusal
from benchmarks.load.client import BrokenAnswerError, encoded, post, posted, read_events
from benchmarks.load.questions import CHAT, ExpectedAnswer, LoadQuestion

VICTIM = Path(__file__).with_name("victim.py")
VICTIM_STREAMS = 3
MOST_EVENTS = 12
"""That a client reads before it leaves."""
PATIENCE_SECONDS = 1.5
"""How long a client that gives up a whole answer waits, at most."""


@dataclass(frozen=True)
class Outcome:
    """What became of one request or, for a client that was killed, of its process.

    Attributes:
        kind: what the client did.
        tokens: of the answer, as far as it came.
        problems: what was wrong, in words.
    """

    kind: str
    tokens: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Storm:
    """Who asks what of whom.

    Attributes:
        port: of the server.
        questions: asked in random order.
        expected: their answers, by id.
        speculations: what requests say of speculation, chosen at random: any drafter must do.
        seed: of all choices.
    """

    port: int
    questions: Sequence[LoadQuestion]
    expected: Mapping[str, ExpectedAnswer]
    speculations: Sequence[Mapping[str, Any]]
    seed: int

    def run(self, streams: int, seconds: float) -> list[Outcome]:
        """Has so many clients ask for so long; each ends the request that it is at."""
        deadline = time.monotonic() + seconds
        with ThreadPoolExecutor(streams) as workers:
            runs = workers.map(lambda number: self._ask_until(number, deadline), range(streams))
            return [outcome for run in runs for outcome in run]

    def _ask_until(self, number: int, deadline: float) -> list[Outcome]:
        random_source = random.Random(f"{self.seed} {number}")
        kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
        outcomes = []
        while time.monotonic() < deadline:
            (kind,) = random_source.choices(kinds, weights)
            outcomes.append(self.act(kind, random_source))
        return outcomes

    def act(self, kind: str, random_source: random.Random) -> Outcome:
        """Does one thing of `KINDS`."""
        question = random_source.choice(self.questions)
        _, action = KINDS[kind]
        try:
            tokens, problems = action(self, question, random_source)
        except BrokenAnswerError as error:
            tokens, problems = 0, [str(error)]
        except (KeyError, TypeError, ValueError) as error:
            tokens, problems = 0, [f"the answer has another shape: {error!r}"]
        return Outcome(kind, tokens, tuple(f"{kind}, {question.id}: {each}" for each in problems))

    def ask(self, question: LoadQuestion, random_source: random.Random, **more: Any) -> bytes:
        """A body with whatever drafter; half of the requests have the tokens told."""
        speculation = dict(random_source.choice(self.speculations))
        if random_source.random() < 0.5:
            speculation["report"] = "tokens"
        return encoded(question.body(speculation=speculation, **more))


Action = Callable[[Storm, LoadQuestion, random.Random], tuple[int, list[str]]]
"""Returns the tokens that came, and what was wrong."""


def read_stream(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Reads a stream to its end."""
    body = storm.ask(question, random_source, stream=True, stream_options={"include_usage": True})
    expected = storm.expected[question.id]
    with posted(storm.port, question.path, body) as response, closing(read_events(response)) as it:
        return len(expected.token_ids), check_answer(assemble(list(it)), expected)


def read_whole(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Reads an answer in one piece."""
    expected = storm.expected[question.id]
    status, content = post(storm.port, question.path, storm.ask(question, random_source))
    if status != 200:
        return 0, [f"the status is {status}: {content[:200]!r}"]
    return len(expected.token_ids), check_answer(assemble([json.loads(content)]), expected)


def disconnect(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Leaves a stream after some events."""
    body = storm.ask(question, random_source, stream=True)
    count = random_source.randint(1, MOST_EVENTS)
    with posted(storm.port, question.path, body) as response, closing(read_events(response)) as it:
        found = assemble(list(islice(it, count)))
    return len(found.token_ids or ()), check_beginning(found, storm.expected[question.id])


def cancel(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Gives up waiting for a whole answer; one that comes sooner must be right."""
    body = storm.ask(question, random_source)
    patience = random_source.uniform(0.01, PATIENCE_SECONDS)
    try:
        status, content = post(storm.port, question.path, body, patience)
    except BrokenAnswerError as error:
        return 0, [] if str(error) == "the server hung" else [str(error)]
    if status != 200:
        return 0, [f"the status is {status}: {content[:200]!r}"]
    return 0, check_answer(assemble([json.loads(content)]), storm.expected[question.id])


def send_malformed(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Sends what can't be served."""
    body = broken_body(question.body(), random_source)
    return 0, check_refusal(*post(storm.port, question.path, body))


def send_half(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Announces a body, sends a part of it and leaves."""
    body = storm.ask(question, random_source, stream=True)
    head = f"POST {question.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", storm.port), 30) as connection:
            connection.sendall(head.encode() + body[: random_source.randrange(len(body))])
    except OSError as error:
        return 0, [f"the connection failed: {error}"]
    return 0, []


def kill_client(
    storm: Storm, question: LoadQuestion, random_source: random.Random
) -> tuple[int, list[str]]:
    """Starts a process that reads several streams, and kills it."""
    chats = [each for each in storm.questions if each.path == CHAT] or [question]
    bodies = [
        storm.ask(random_source.choice(chats), random_source, stream=True)
        for _ in range(VICTIM_STREAMS)
    ]
    command = [sys.executable, "-I", "-S", str(VICTIM), str(storm.port), chats[0].path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        process.stdin.write(b"\n".join(bodies))
        process.stdin.close()
        began = process.stdout.readline()
        time.sleep(random_source.uniform(0, 0.5))
        process.kill()
    return 0, [] if began else ["the client could not begin its streams"]


KINDS: Mapping[str, tuple[int, Action]] = {
    "stream": (45, read_stream),
    "whole answer": (15, read_whole),
    "disconnect": (14, disconnect),
    "cancel": (8, cancel),
    "malformed body": (10, send_malformed),
    "half a body": (5, send_half),
    "killed client": (3, kill_client),
}
"""What clients do, how often among a hundred times, and how."""
