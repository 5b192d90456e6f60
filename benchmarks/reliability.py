"""The server under rude clients: no leak, no token lost, no text changed, no crash.

    python -m benchmarks.reliability --json reliability.json
    python -m benchmarks.reliability --minutes 1 --streams 16 --bodies 500

Answers to a set of questions, greedy and with seeds, are decoded first in this process, one at a
time and without drafts. Then `oneglance serve` runs in a process of its own, and many clients at
once ask the same questions for ten minutes with any drafter: some leave, some give up, some send
what is no request, some are killed. Every text that is delivered must be that of decoding alone,
bit for bit. Then the server is told to end in the middle of streams and started again; and another
one, of small limits, gets ten thousand bodies that no client should send, and the requests that
Schemathesis makes of its OpenAPI schema. The program ends with code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import oneglance
from benchmarks.load.checks import check_memory, check_pages, memory_growth
from benchmarks.load.client import BrokenAnswerError
from benchmarks.load.fuzz import fuzz
from benchmarks.load.leaks import Held, MemoryWatch, kept_tokens, settle, short_questions
from benchmarks.load.openapi import run_schemathesis
from benchmarks.load.own_server import OwnServer
from benchmarks.load.process import ServerFailedError, free_port
from benchmarks.load.questions import (
    ExpectedAnswer,
    LoadQuestion,
    expected_answer,
    long_question,
    make_questions,
)
from benchmarks.load.restart import restart_under_load
from benchmarks.load.storm import Outcome, Storm
from benchmarks.options import checked_main, positive_number, whole_number, writable_path
from oneglance.bench.measure import WARM_UP
from oneglance.bench.prompts import BUILT_IN, read_prompts
from oneglance.bench.report import write_report
from oneglance.bench.subject import without_folders
from oneglance.cli.provenance import provenance
from oneglance.errors import ParameterError
from oneglance.llm import DEFAULT_MODEL

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
LONG_TOKENS = 96
RESTART_STREAMS = 16
MAX_RUNNING = 32
LEAST_PAGES = 24
PAGES_PER_STREAM = 3
"""Fewer than as many answers need that run at once, so that some have to give way."""
DRAIN_SECONDS = 120
FUZZ_SETTINGS = {
    **{"max_output_tokens": 4, "max_prompt_tokens": 256, "max_choices": 4},
    **{"cached_tokens": 256, "request_seconds": 60},
}
FUZZ_QUESTIONS = 12
SHOWN_PROBLEMS = 20


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


def parse_arguments(description: str, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line.

    Args:
        description: of the script; its first line is shown.
        words: instead of those that the script was called with.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    number: dict[str, Any] = {"type": whole_number, "metavar": "N"}
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name or a path")
    parser.add_argument("--drafter", default="auto", help="of the server; default auto")
    parser.add_argument(
        "--minutes", type=positive_number, default=10.0, help="of load; default %(default)g"
    )
    parser.add_argument("--streams", **number, default=64, help="at once; default %(default)s")
    parser.add_argument(
        "--questions", **number, default=48, help="with known answers; default %(default)s"
    )
    parser.add_argument(
        "--max-tokens", **number, default=32, help="of their answers; default %(default)s"
    )
    parser.add_argument("--bodies", **number, default=10_000, help="default %(default)s")
    parser.add_argument(
        "--examples",
        **number,
        default=200,
        help="of Schemathesis for each operation; default %(default)s",
    )
    parser.add_argument("--seed", **number, default=1, help="of all choices; default 1")
    parser.add_argument("--json", type=writable_path, metavar="FILE", help="write figures to FILE")
    return parser.parse_args(words)


def decode_alone(options: argparse.Namespace) -> Known:
    """Makes the questions, and decodes their answers in this process."""
    prompts = read_prompts(BUILT_IN).prompts
    questions = make_questions(prompts, options.questions, options.max_tokens, options.seed)
    long = long_question(WARM_UP, LONG_TOKENS)
    with oneglance.load(options.model, "none") as llm:
        expected = {each.id: expected_answer(llm, each) for each in (*questions, long)}
        return Known(questions, long, expected, llm.checkpoint.quantization_summary())


def server_settings(options: argparse.Namespace, known: Known) -> dict[str, object]:
    """Of the server in the storm: small enough that prefixes and answers have to give way."""
    asked = [known.expected[each.id] for each in known.questions]
    return {
        "drafter": options.drafter,
        "max_output_tokens": max(LONG_TOKENS, options.max_tokens),
        "cached_tokens": kept_tokens(asked),
        "pages": max(PAGES_PER_STREAM * min(options.streams, MAX_RUNNING), LEAST_PAGES),
        "max_running": MAX_RUNNING,
        "drain_seconds": DRAIN_SECONDS,
    }


def weather_storm(
    options: argparse.Namespace, known: Known, server: OwnServer
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Loads a running server; returns figures, and what was wrong by subject."""
    seconds = 60 * options.minutes
    storm = Storm(server.port, known.questions, known.expected, SPECULATIONS, options.seed)
    before = settle(server, known.questions)
    started = time.monotonic()
    outcomes = storm.run(options.streams, WARM_UP_SHARE * seconds)
    again = Storm(server.port, known.questions, known.expected, SPECULATIONS, options.seed + 1)
    rest = (1 - WARM_UP_SHARE) * seconds
    with MemoryWatch(server.process.pid, rest / MEMORY_SAMPLES) as watch:
        outcomes += again.run(options.streams, rest)
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
        "storm": [problem for each in outcomes for problem in each.problems],
        "pages": held_problems(before, after),
        "memory": check_memory(watch.samples) if is_judged else [],
    }
    return figures, problems


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


def send_bodies(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Fuzzes a server of small limits; returns figures, and what was wrong by subject."""
    questions = short_questions(FUZZ_QUESTIONS)
    with OwnServer(options.model, free_port(), FUZZ_SETTINGS) as server:
        before = settle(server, questions)
        fuzzed = fuzz(server.port, options.bodies, options.seed)
        tested = run_schemathesis(server, options.examples, options.seed)
        after = settle(server, questions)
    figures = {
        "fuzz": {
            "bodies": fuzzed.num_bodies,
            "statuses": dict(sorted(fuzzed.statuses.items())),
            "pages": {"before": asdict(before), "after": asdict(after)},
        },
        "schemathesis": {
            "version": tested.version,
            "operations": tested.operations,
            "cases": tested.cases,
        },
    }
    fuzz_problems = fuzzed.problems + held_problems(before, after)
    return figures, {"fuzz": fuzz_problems, "schemathesis": tested.problems}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Does everything, and returns the report."""
    load_average = os.getloadavg()
    words = shlex.join(["python", "-m", "benchmarks.reliability", *sys.argv[1:]])
    origin = provenance(without_folders(words))
    known = decode_alone(options)
    settings = server_settings(options, known)
    with OwnServer(options.model, free_port(), settings) as server:
        figures, problems = weather_storm(options, known, server)
        streams = min(options.streams, RESTART_STREAMS)
        restarted = restart_under_load(server, known.long, known.expected[known.long.id], streams)
    more_figures, more_problems = send_bodies(options)
    problems |= {"restart": restarted.problems, **more_problems}
    restart_figures = asdict(restarted)
    del restart_figures["problems"]
    return {
        **origin,
        "load_average_before": load_average,
        "load_average_after": os.getloadavg(),
        "model": without_folders(options.model),
        "quantization": known.quantization,
        "server": settings,
        **{name: getattr(options, name) for name in ("minutes", "streams", "seed")},
        "questions": len(known.questions),
        **figures,
        "restart": restart_figures,
        **more_figures,
        "num_problems": {name: len(found) for name, found in problems.items()},
        "problems": {name: found[:SHOWN_PROBLEMS] for name, found in problems.items()},
    }


def main() -> None:
    """Runs everything, says what was wrong, and writes the file."""
    # Whoever ends this process ends the servers that it started.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    options = parse_arguments(__doc__ or "")
    try:
        report = run(options)
    except (BrokenAnswerError, ServerFailedError) as error:
        raise ParameterError(
            f"The server cannot be tested ({error}); see that `oneglance serve` runs."
        ) from None
    if options.json is not None:
        write_report(options.json, report)
    for name, count in report["num_problems"].items():
        print(f"{name}: {f'{count} problems' if count else 'nothing was wrong'}")
        for problem in report["problems"][name]:
            print(f"  {problem}")
    if any(report["num_problems"].values()):
        sys.exit(1)


if __name__ == "__main__":
    checked_main(main)
