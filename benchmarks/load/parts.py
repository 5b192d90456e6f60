"""The parts of the reliability run: what each does to a server, its figures, and what was wrong."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import oneglance
from benchmarks.load.checks import check_memory, check_pages, memory_growth
from benchmarks.load.fuzz import fuzz
from benchmarks.load.leaks import Held, MemoryWatch, kept_tokens, settle, short_questions
from benchmarks.load.openapi import run_schemathesis
from benchmarks.load.own_server import OwnServer
from benchmarks.load.questions import (
    ExpectedAnswer,
    LoadQuestion,
    expected_answer,
    long_question,
    make_questions,
)
from benchmarks.load.restart import restart_under_load
from benchmarks.load.storm import Outcome, Storm
from oneglance.bench.measure import WARM_UP
from oneglance.bench.prompts import BUILT_IN, read_prompts

STORM, RESTART, FUZZ, SCHEMATHESIS = "storm", "restart", "fuzz", "schemathesis"
PARTS = (STORM, RESTART, FUZZ, SCHEMATHESIS)

SPECULATIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"off": True},
    {"drafter": "ngram"},
    {"drafter": "ngram", "k": 2},
    {"drafter": "suffix"},
    {"drafter": "suffix", "tree": 12},
    {"drafter": "lookahead"},
)
"""What requests say of speculation: the server's own choice, none, and what all servers allow."""
WARM_UP_SHARE = 0.2
"""Part of the time after which memory is looked at."""
LEAST_JUDGED_SECONDS = 60.0
"""Of a run whose memory is judged: in a shorter one the server has not come to rest."""
MEMORY_SAMPLES = 120
LONG_FACTOR = 3
"""Of the longest answer of the storm: how long those are that a server is ended in."""
RESTART_STREAMS = 16
MAX_RUNNING = 32
LEAST_PAGES = 16
PAGES_PER_STREAM = 1.25
"""Fewer than as many answers need that run at once, so that some have to give way."""
DRAIN_SECONDS = 120
FUZZ_SETTINGS: Mapping[str, object] = {
    **{"max_output_tokens": 4, "max_prompt_tokens": 256, "max_choices": 4},
    **{"cached_tokens": 256, "request_seconds": 60},
}
FUZZ_QUESTIONS = 12


@dataclass
class Findings:
    """What a part tells.

    Attributes:
        figures: by name, for the report.
        problems: what was wrong, in words, by subject.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: Findings) -> None:
        """Takes those of another part."""
        self.figures |= other.figures
        self.problems |= other.problems


@dataclass(frozen=True)
class Size:
    """How much is done.

    Attributes:
        seconds: of load.
        streams: at once.
        questions: with known answers.
        max_tokens: of their answers.
        bodies: that no client should send.
        examples: of Schemathesis for each operation.
        seed: of all choices.
    """

    seconds: float
    streams: int
    questions: int
    max_tokens: int
    bodies: int
    examples: int
    seed: int


@dataclass(frozen=True)
class Known:
    """Questions with their answers.

    Attributes:
        questions: of the storm.
        long: of the streams that the server is ended in.
        expected: answers by the question's id.
        quantization: of the model.
    """

    questions: Sequence[LoadQuestion]
    long: LoadQuestion
    expected: Mapping[str, ExpectedAnswer]
    quantization: str


def decode_alone(model: str, size: Size) -> Known:
    """Makes the questions, and decodes their answers in this process."""
    prompts = read_prompts(BUILT_IN).prompts
    questions = make_questions(prompts, size.questions, size.max_tokens, size.seed)
    long = long_question(WARM_UP, LONG_FACTOR * size.max_tokens)
    with oneglance.load(model, "none") as llm:
        expected = {each.id: expected_answer(llm, each) for each in (*questions, long)}
        return Known(questions, long, expected, llm.checkpoint.quantization_summary())


def server_settings(drafter: str, size: Size, known: Known) -> dict[str, object]:
    """Of the server in the storm: small enough that prefixes and answers have to give way."""
    asked = [known.expected[each.id] for each in known.questions]
    return {
        "drafter": drafter,
        "max_output_tokens": LONG_FACTOR * size.max_tokens,
        "cached_tokens": kept_tokens(asked),
        "pages": max(int(PAGES_PER_STREAM * min(size.streams, MAX_RUNNING)), LEAST_PAGES),
        "max_running": MAX_RUNNING,
        "drain_seconds": DRAIN_SECONDS,
    }


def weather_storm(server: OwnServer, known: Known, size: Size) -> Findings:
    """Loads a running server; memory is looked at once it has been loaded for a while."""
    storms = [
        Storm(server.port, known.questions, known.expected, SPECULATIONS, size.seed + number)
        for number in range(2)
    ]
    before = settle(server, known.questions)
    started = time.monotonic()
    outcomes = storms[0].run(size.streams, WARM_UP_SHARE * size.seconds)
    rest = (1 - WARM_UP_SHARE) * size.seconds
    with MemoryWatch(server.process.pid, rest / MEMORY_SAMPLES) as watch:
        outcomes += storms[1].run(size.streams, rest)
    elapsed = time.monotonic() - started
    after = settle(server, known.questions)
    gauges = server.gauges()
    is_judged = rest >= LEAST_JUDGED_SECONDS
    figures = {
        "storm": {
            "seconds": elapsed,
            "outcomes": count_outcomes(outcomes),
            "tokens": sum(each.tokens for each in outcomes),
            "preemptions": gauges.total("oneglance_preemptions_total"),
            "drafted": gauges.total("oneglance_drafted_tokens_total"),
            "accepted": gauges.total("oneglance_accepted_tokens_total"),
        },
        "pages": {"before": asdict(before), "after": asdict(after)},
        "memory": {
            "growth": memory_growth(watch.samples) if watch.samples else None,
            "is_judged": is_judged,
            "samples": watch.samples,
        },
    }
    problems = {
        STORM: [problem for each in outcomes for problem in each.problems],
        "pages": held_problems(before, after),
        "memory": check_memory(watch.samples) if is_judged else [],
    }
    return Findings(figures, problems)


def restart(server: OwnServer, known: Known, size: Size) -> Findings:
    """Ends a running server in the middle of streams, and starts it again."""
    streams = min(size.streams, RESTART_STREAMS)
    report = restart_under_load(server, known.long, known.expected[known.long.id], streams)
    figures = asdict(report)
    return Findings({RESTART: figures}, {RESTART: figures.pop("problems")})


def send_bodies(server: OwnServer, size: Size) -> Findings:
    """Fuzzes a running server of small limits."""
    questions = short_questions(FUZZ_QUESTIONS)
    before = settle(server, questions)
    report = fuzz(server.port, size.bodies, size.seed)
    after = settle(server, questions)
    figures = {
        "bodies": report.num_bodies,
        "statuses": dict(sorted(report.statuses.items())),
        "pages": {"before": asdict(before), "after": asdict(after)},
    }
    return Findings({FUZZ: figures}, {FUZZ: report.problems + held_problems(before, after)})


def check_schema(server: OwnServer, size: Size) -> Findings:
    """Has Schemathesis test a running server of small limits."""
    figures = asdict(run_schemathesis(server.url, size.examples, size.seed))
    return Findings({SCHEMATHESIS: figures}, {SCHEMATHESIS: figures.pop("problems")})


def count_outcomes(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """By what the client did: how often, and how often something was wrong."""
    counts = Counter(each.kind for each in outcomes)
    wrong = Counter(each.kind for each in outcomes if each.problems)
    return {kind: {"count": counts[kind], "wrong": wrong[kind]} for kind in sorted(counts)}


def held_problems(before: Held, after: Held) -> list[str]:
    """Nothing is held after a load that was not held before."""
    problems = check_pages(before.pages, after.pages, before.cached_tokens, after.cached_tokens)
    if after.in_progress:
        problems.append(f"{after.in_progress} requests are still in progress")
    return problems
