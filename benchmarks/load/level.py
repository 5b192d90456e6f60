"""So many requests at once: every subject answers the same ones by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.load.process import processor_seconds
from benchmarks.load.streams import Item, Streamed, Wire, stream_answer
from oneglance.bench.measure import DifferentAnswerError
from oneglance.bench.work import LineFile

Counts = Mapping[str, float]
"""What a server has counted since it began: passes, drafted and accepted tokens."""


@dataclass(frozen=True)
class LoadSubject:
    """Who answers.

    Attributes:
        label: its name in results.
        wire: how it is asked.
        pid: of its process.
        counts: what it has counted; None: it does not tell.
        must_agree: its texts are those of every other subject that must agree.
    """

    label: str
    wire: Wire
    pid: int
    counts: Callable[[], Counts] | None = None
    must_agree: bool = True


@dataclass(frozen=True)
class LoadRun:
    """One subject's answers to all requests of a round.

    Attributes:
        level: requests in progress at once.
        round: from 0 on.
        subject: label of who answered.
        requests: how many there were.
        tokens: of all answers together.
        seconds: from the first request to the end of the last answer.
        first_token_seconds: of each answer, from its request to its first text.
        seconds_per_token: of each answer of two tokens or more, between first and last text.
        client_seconds: of processor that asking took.
        server_seconds: of processor that the server's process took; None where the system does
            not tell.
        identical: answers that are those of the first subject.
        counts: passes, drafted and accepted tokens of the run; None: the server does not tell.
    """

    level: int
    round: int
    subject: str
    requests: int
    tokens: int
    seconds: float
    first_token_seconds: tuple[float, ...]
    seconds_per_token: tuple[float, ...]
    client_seconds: float
    server_seconds: float | None
    identical: int
    counts: Counts | None

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> LoadRun:
        """A run as JSON has it."""
        lists = ("first_token_seconds", "seconds_per_token")
        return cls(**{**fields, **{name: tuple(fields[name]) for name in lists}})


@dataclass
class LoadWork(LineFile):
    """Finished rounds, a line for each.

    Attributes:
        rounds: the runs of a round by subject, by level and number of the round.
    """

    rounds: dict[tuple[int, int], dict[str, LoadRun]] = field(default_factory=dict)

    def add(self, runs: Sequence[LoadRun]) -> None:
        """Keeps a round that is finished."""
        self._keep(runs)
        self._write({"runs": [asdict(run) for run in runs]})

    def _take(self, line: Mapping[str, Any]) -> None:
        self._keep([LoadRun.read(fields) for fields in line["runs"]])

    def _keep(self, runs: Sequence[LoadRun]) -> None:
        self.rounds[runs[0].level, runs[0].round] = {run.subject: run for run in runs}


@dataclass(frozen=True)
class _Answers:
    """What one subject gave, and what it took."""

    streamed: Sequence[Streamed]
    seconds: float
    client_seconds: float
    server_seconds: float | None
    counts: Counts | None


def choose_items(items: Sequence[Item], level: int, number: int, least: int) -> list[Item]:
    """The requests of a round: other prompts in every round, as far as there are so many.

    Args:
        items: all prompts.
        level: requests in progress at once.
        number: of the round.
        least: requests of a round, unless `level` asks for more; at least two for each stream.
    """
    count = num_requests(level, least)
    chosen = []
    for index in range(count):
        item = items[(number * count + index) % len(items)]
        chosen.append(Item(item.id, item.text, item.token_ids, index // len(items)))
    return chosen


def num_requests(level: int, least: int) -> int:
    """Requests of a round: two for each stream, and `least` or a little more of them."""
    return level * max(2, -(-least // level))


def run_round(
    subjects: Sequence[LoadSubject], items: Sequence[Item], level: int, number: int, max_tokens: int
) -> list[LoadRun]:
    """Every subject answers, one after the other, the first one last in every second round.

    Raises:
        DifferentAnswerError: two subjects that must agree gave different texts.
        NoAnswerError: a server failed.
    """
    answers = {
        each.label: _answers_of(each, items, level, max_tokens)
        for each in list(subjects)[:: 1 if number % 2 == 0 else -1]
    }
    base = answers[subjects[0].label].streamed
    runs = []
    for subject in subjects:
        found = answers[subject.label]
        if subject.must_agree:
            check_texts(items, subjects[0].label, base, subject.label, found.streamed)
        runs.append(_make_run(level, number, subject.label, found, base))
    return runs


def check_texts(
    items: Sequence[Item],
    base_label: str,
    base: Sequence[Streamed],
    label: str,
    streamed: Sequence[Streamed],
) -> None:
    """Refuses answers that differ, text for text or in their number of tokens.

    Raises:
        DifferentAnswerError: two do.
    """
    for item, one, other in zip(items, base, streamed, strict=True):
        if (one.text, one.tokens) != (other.text, other.tokens):
            raise DifferentAnswerError(
                f"{base_label} and {label} answer prompt {item.id} differently, with "
                f"{one.text[:200]!r} and {other.text[:200]!r}; mend that before its speed is "
                "measured."
            )


def _answers_of(
    subject: LoadSubject, items: Sequence[Item], level: int, max_tokens: int
) -> _Answers:
    """Each stream takes the next request as soon as it has ended one."""
    counted = None if subject.counts is None else subject.counts()
    client, server = time.process_time(), processor_seconds(subject.pid)
    with ThreadPoolExecutor(level) as streams:
        started = time.perf_counter()
        streamed = list(
            streams.map(lambda item: stream_answer(subject.wire, item, max_tokens), items)
        )
        seconds = time.perf_counter() - started
    client = time.process_time() - client
    after = processor_seconds(subject.pid)
    return _Answers(
        streamed,
        seconds,
        client,
        None if server is None or after is None else after - server,
        None if counted is None or subject.counts is None else _since(counted, subject.counts()),
    )


def _since(before: Counts, after: Counts) -> Counts:
    return {name: after[name] - before[name] for name in after}


def _make_run(
    level: int, number: int, label: str, found: _Answers, base: Sequence[Streamed]
) -> LoadRun:
    per_token = (each.seconds_per_token for each in found.streamed)
    return LoadRun(
        level=level,
        round=number,
        subject=label,
        requests=len(found.streamed),
        tokens=sum(each.tokens for each in found.streamed),
        seconds=found.seconds,
        first_token_seconds=tuple(each.first_seconds for each in found.streamed),
        seconds_per_token=tuple(each for each in per_token if each is not None),
        client_seconds=found.client_seconds,
        server_seconds=found.server_seconds,
        identical=sum(
            one.text == other.text for one, other in zip(base, found.streamed, strict=True)
        ),
        counts=found.counts,
    )
