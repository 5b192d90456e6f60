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
from collections.abc import Sequence
from typing import Any

from benchmarks.load.client import BrokenAnswerError
from benchmarks.load.own_server import OwnServer
from benchmarks.load.parts import (
    FUZZ,
    FUZZ_SETTINGS,
    PARTS,
    RESTART,
    SCHEMATHESIS,
    STORM,
    Findings,
    Size,
    check_schema,
    decode_alone,
    restart,
    send_bodies,
    server_settings,
    weather_storm,
)
from benchmarks.load.process import ServerFailedError, free_port
from benchmarks.options import checked_main, positive_number, whole_number, writable_path
from oneglance.bench.report import write_report
from oneglance.bench.subject import without_folders
from oneglance.cli.provenance import provenance
from oneglance.errors import ParameterError
from oneglance.llm import DEFAULT_MODEL

SHOWN_PROBLEMS = 20


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
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="default: all of them"
    )
    parser.add_argument("--json", type=writable_path, metavar="FILE", help="write figures to FILE")
    return parser.parse_args(words)


def size_of(options: argparse.Namespace) -> Size:
    """How much is asked for."""
    numbers = ("streams", "questions", "max_tokens", "bodies", "examples", "seed")
    return Size(60 * options.minutes, **{name: getattr(options, name) for name in numbers})


def ask_questions(options: argparse.Namespace, size: Size) -> Findings:
    """The parts that ask what has a known answer."""
    known = decode_alone(options.model, size)
    settings = server_settings(options.drafter, size, known)
    found = Findings({"quantization": known.quantization, "server": settings})
    with OwnServer(options.model, free_port(), settings) as server:
        if STORM in options.parts:
            found.add(weather_storm(server, known, size))
        if RESTART in options.parts:
            found.add(restart(server, known, size))
    return found


def send_anything(options: argparse.Namespace, size: Size) -> Findings:
    """The parts that send whatever there is."""
    found = Findings()
    with OwnServer(options.model, free_port(), FUZZ_SETTINGS) as server:
        if FUZZ in options.parts:
            found.add(send_bodies(server, size))
        if SCHEMATHESIS in options.parts:
            found.add(check_schema(server, size))
    return found


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Does everything, and returns the report."""
    load_average = os.getloadavg()
    words = shlex.join(["python", "-m", "benchmarks.reliability", *sys.argv[1:]])
    origin = provenance(without_folders(words))
    size, found = size_of(options), Findings()
    if {STORM, RESTART} & set(options.parts):
        found.add(ask_questions(options, size))
    if {FUZZ, SCHEMATHESIS} & set(options.parts):
        found.add(send_anything(options, size))
    return {
        **origin,
        "load_average_before": load_average,
        "load_average_after": os.getloadavg(),
        "model": without_folders(options.model),
        **{name: getattr(options, name) for name in ("minutes", "streams", "questions", "seed")},
        **found.figures,
        "num_problems": {name: len(each) for name, each in found.problems.items()},
        "problems": {name: each[:SHOWN_PROBLEMS] for name, each in found.problems.items()},
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
