"""What a pass of the native engine costs, in paired rounds, next to the memory and to others.

    python -m benchmarks.engine --json engine.json
    python -m benchmarks.engine --model qwen2.5-coder-1.5b --rounds 5
    python -m benchmarks.engine --llama-bench build/bin/llama-bench --peer http://127.0.0.1:8080

In each round everything is measured once, there and back by turns, in one process: passes of
1 to 32 rows behind several contexts, where the time of a pass goes, plain greedy decoding, a
prompt of 512 tokens, a plain read of memory, loading, and a fresh `oneglance generate`. With
`--llama-bench` llama.cpp's own benchmark takes its turn on the same file and number of threads;
with `--peer` a server of OpenAI's protocol gives the same answer.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import engine_tasks as tasks_of
from benchmarks.engine_tasks import Task
from benchmarks.grids import all_grids
from benchmarks.llama_bench import LlamaBench
from benchmarks.options import checked_main, whole_number, writable_path
from benchmarks.server import Server
from benchmarks.startup import time_first_token, time_load
from benchmarks.subject import Subject, load_subject
from oneglance.bench.grid import busy_warning
from oneglance.bench.machine import READ_BYTES
from oneglance.bench.report import write_report
from oneglance.bench.timing import alternate
from oneglance.cli.provenance import provenance
from oneglance.llm import DEFAULT_MODEL


def make_tasks(subject: Subject, options: argparse.Namespace) -> dict[str, Task]:
    """Everything that one round measures, by name."""
    rows = tuple(sorted({1, *options.rows}))
    contexts = tasks_of.fitting_contexts(subject, options.contexts, max(rows))
    context = tasks_of.typical_context(contexts)
    kernel_rows = tuple(count for count in tasks_of.KERNEL_ROWS if count in rows)
    tasks: dict[str, Task] = {
        "read": tasks_of.read_task(subject),
        **tasks_of.pass_tasks(subject, contexts, rows),
        **tasks_of.kernel_tasks(subject, context, kernel_rows),
        "plain": tasks_of.plain_task(subject, tasks_of.PROMPT, options.tokens),
        "prefill": tasks_of.prefill_task(subject),
        "load": partial(time_load, subject),
        "first token": partial(
            time_first_token, subject.path, subject.engine.num_threads, tasks_of.PROMPT
        ),
    }
    if options.llama_bench is not None:
        bench = LlamaBench(options.llama_bench, subject.path, subject.engine.num_threads)
        tasks["llama-bench"] = partial(
            bench.measure,
            plain_tokens=options.tokens,
            prefill_tokens=tasks_of.PREFILL_TOKENS,
            context=context,
            rows=rows,
            repeats=tasks_of.PASSES,
        )
    if options.peer is not None:
        server = Server(options.peer, options.model)
        tasks["server"] = partial(server.measure, tasks_of.PROMPT, options.tokens)
    return tasks


def measure(
    subject: Subject, options: argparse.Namespace, console: Console
) -> dict[str, list[Any]]:
    """All samples; one round before the first warms everything up and is not kept."""
    tasks = make_tasks(subject, options)
    with console.status("warm-up") as status:
        alternate(tasks, 1, lambda name: status.update(f"warm-up: {name}"))
        number = 0

        def report(name: str) -> None:
            nonlocal number
            number += 1
            status.update(f"round {1 + (number - 1) // len(tasks)} of {options.rounds}: {name}")

        return alternate(tasks, options.rounds, report)


def make_report(
    subject: Subject,
    options: argparse.Namespace,
    samples: dict[str, list[Any]],
    load_average: tuple[float, float, float],
) -> dict[str, Any]:
    """What `--json` writes: where the figures come from, sizes, and every sample in seconds."""
    engine = subject.engine
    return {
        **provenance(shlex.join(["python", "-m", "benchmarks.engine", *sys.argv[1:]])),
        "load_average_before": load_average,
        "load_average_after": os.getloadavg(),
        "model": options.model,
        "quantization": subject.checkpoint.quantization_summary(),
        "isa": engine.isa,
        "threads": engine.num_threads,
        "weight_bytes": engine.weight_bytes,
        "pass_bytes": engine.pass_bytes,
        "kv_bytes_per_token": subject.kv_bytes(1),
        "read_bytes": READ_BYTES,
        "prefill_tokens": tasks_of.PREFILL_TOKENS,
        "rounds": options.rounds,
        "samples": samples,
    }


def parse_arguments() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or path (default %(default)s)")
    parser.add_argument("--threads", type=whole_number, help="of the engine (default: all cores)")
    parser.add_argument("--rounds", type=whole_number, default=10, help="default %(default)s")
    parser.add_argument(
        "--rows",
        type=whole_number,
        nargs="+",
        default=tasks_of.ROWS,
        help="of the passes; 1 is added, and of 1, 8 and 32 the parts are timed",
    )
    parser.add_argument(
        "--contexts", type=whole_number, nargs="+", default=tasks_of.CONTEXTS, help="behind them"
    )
    parser.add_argument(
        "--tokens", type=whole_number, default=tasks_of.PLAIN_TOKENS, help="of the plain answer"
    )
    parser.add_argument("--json", type=writable_path, metavar="FILE", help="write samples to FILE")
    parser.add_argument(
        "--llama-bench", type=Path, metavar="PATH", help="llama.cpp's benchmark program"
    )
    parser.add_argument("--peer", metavar="URL", help="a server of OpenAI's protocol")
    return parser.parse_args()


def main() -> None:
    """Measures, prints the tables and writes the file."""
    options = parse_arguments()
    console = Console()
    load_average = os.getloadavg()
    subject = load_subject(options.model, options.threads)
    samples = measure(subject, options, console)
    report = make_report(subject, options, samples, load_average)
    for grid in all_grids(report):
        console.print(grid.to_rich())
    console.print(busy_warning(report))
    if options.json is not None:
        write_report(options.json, report)


if __name__ == "__main__":
    checked_main(main)
