"""How many tokens a second the server gives under load, beside itself without speculation.

    python -m benchmarks.serving --prompts FILE --json serving.json
    python -m benchmarks.serving --model MODEL --llama-server PATH --llama-setting plain

`oneglance serve` runs in a process of its own and is asked by 1, 2, 4, 8, 16 and 32 streams at
once, greedily. In each round all streams are answered twice: with speculation as the server decides
it, and with speculation switched off by each request; with `--llama-server` also by llama.cpp's
server with as many slots, on the same file. The order turns from round to round. The texts of both
ways must be equal, or the run fails. No request finds anything of another in what a server keeps:
each way of each round has API keys of its own that share no cache, one for every repetition of a
prompt, and llama.cpp's cache of prompts is switched off. With `--json` every finished round is kept
in a work file beside it, so that an interrupted benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.llama_server import LlamaProgram, LlamaServer, parse_settings
from benchmarks.load.figures import AUTO, OFF, level_results, serving_grids
from benchmarks.load.level import (
    Counts,
    LoadRun,
    LoadSubject,
    LoadWork,
    choose_items,
    num_requests,
    run_round,
)
from benchmarks.load.own_server import OwnServer
from benchmarks.load.process import ServerFailedError, free_port
from benchmarks.load.streams import ChatWire, Item, LlamaWire, stream_answer
from benchmarks.options import checked_main
from benchmarks.serving_options import LEVELS, check_arguments, parse_arguments
from oneglance.bench.grid import busy_warning
from oneglance.bench.http_json import NoAnswerError
from oneglance.bench.measure import WARM_UP, WARM_UP_TOKENS
from oneglance.bench.prompts import PromptFile, first_of_each_category, read_prompts
from oneglance.bench.report import write_report
from oneglance.bench.session import work_path
from oneglance.bench.subject import without_folders
from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.cli.provenance import provenance
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.machine import num_cores

SPECULATION: Mapping[str, Mapping[str, Any] | None] = {AUTO: None, OFF: {"off": True}}
"""What requests say of it, by label."""
COUNTED = {
    "passes": "oneglance_passes_total",
    "drafted": "oneglance_drafted_tokens_total",
    "accepted": "oneglance_accepted_tokens_total",
}
SPARE_POSITIONS = 64


@dataclass(frozen=True)
class Load:
    """What is asked.

    Attributes:
        items: the prompts.
        levels: requests at once.
        rounds: of each level.
        least: requests of a round, at least.
        max_tokens: of an answer.
    """

    items: Sequence[Item]
    levels: Sequence[int]
    rounds: int
    least: int
    max_tokens: int

    def keys(self, label: str, level: int, number: int) -> tuple[str, ...]:
        """The API keys of a subject in a round: one for each repetition of a prompt."""
        count = -(-num_requests(level, self.least) // len(self.items))
        return tuple(f"{label}-{level}-{number}-{index}" for index in range(count))

    def all_keys(self) -> list[str]:
        """The keys of all rounds, and that of the warm-up."""
        rounds = [(level, number) for level in self.levels for number in range(self.rounds)]
        keys = [self.keys(label, *each) for label in SPECULATION for each in rounds]
        return [WARM_UP.id, *(key for group in keys for key in group)]


def read_items(checkpoint: Checkpoint, file: PromptFile, limit: int | None) -> list[Item]:
    """The prompts of a file, as text and as the model gets them.

    Raises:
        UnsupportedError: the model has no chat template.
    """
    template = checkpoint.chat_template
    if template is None:
        raise UnsupportedError(
            f"{checkpoint.name!r} has no chat template; name a model that answers chats."
        )
    items = []
    for prompt in first_of_each_category(file.prompts, limit):
        messages = [{"role": "user", "content": prompt.text}]
        token_ids = template.encode(checkpoint.tokenizer, messages)
        items.append(Item(prompt.id, prompt.text, tuple(token_ids)))
    return items


def own_subjects(server: OwnServer, load: Load, level: int, number: int) -> list[LoadSubject]:
    """Our server, with and without speculation."""
    return [
        LoadSubject(
            label,
            ChatWire(server.url, load.keys(label, level, number), speculation),
            server.process.pid,
            lambda: _counts(server),
        )
        for label, speculation in SPECULATION.items()
    ]


def _counts(server: OwnServer) -> Counts:
    gauges = server.gauges()
    return {name: gauges.total(sample) for name, sample in COUNTED.items()}


def make_servers(
    options: argparse.Namespace, load: Load, path: Path, level: int
) -> list[LlamaServer]:
    """llama.cpp's server with each of its settings; not running yet.

    Args:
        options: of the command line.
        load: what it is asked.
        path: of our model's file.
        level: how many slots it has.
    """
    if options.llama_server is None:
        return []
    longest = max(len(item.token_ids) for item in load.items)
    program = LlamaProgram(
        path=options.llama_server,
        model=options.llama_model or path,
        draft=options.llama_draft,
        num_threads=options.threads or num_cores(),
        context=longest + load.max_tokens + SPARE_POSITIONS,
        slots=level,
    )
    settings = parse_settings(options.llama_setting or ["plain"], program)
    return [LlamaServer(program, name, words) for name, words in settings.items()]


def warm_up(wire: ChatWire | LlamaWire, item: Item) -> None:
    """A short answer that is not counted: the first one loads what is loaded late."""
    stream_answer(wire, item, WARM_UP_TOKENS)


def measure(
    options: argparse.Namespace, load: Load, own: OwnServer, path: Path, work: LoadWork
) -> None:
    """Runs every round that is not in the work file yet.

    Raises:
        OneglanceError: a server failed, or answers differ.
    """
    short = Item(WARM_UP.id, WARM_UP.text, load.items[0].token_ids[:1])
    for speculation in SPECULATION.values():
        warm_up(ChatWire(own.url, (WARM_UP.id,), speculation), short)
    for level in load.levels:
        missing = missing_rounds(load, level, work)
        if not missing:
            continue
        with ExitStack() as running:
            peers = [*map(running.enter_context, make_servers(options, load, path, level))]
            for peer in peers:
                warm_up(LlamaWire(peer.process.url), short)
            for number in missing:
                subjects = own_subjects(own, load, level, number)
                subjects += map(peer_subject, peers)
                items = choose_items(load.items, level, number, load.least)
                runs = run_round(subjects, items, level, number, load.max_tokens)
                work.add(runs)
                show_progress(runs)


def missing_rounds(load: Load, level: int, work: LoadWork) -> list[int]:
    """Numbers of the rounds of a level that are not in the work file."""
    return [each for each in range(load.rounds) if (level, each) not in work.rounds]


def peer_subject(server: LlamaServer) -> LoadSubject:
    """llama.cpp's server; its arithmetic is not ours, so its texts may differ."""
    process = server.process
    return LoadSubject(server.label, LlamaWire(process.url), process.pid, must_agree=False)


def show_progress(runs: Sequence[LoadRun]) -> None:
    """A line on stderr for each round."""
    speeds = ", ".join(f"{run.subject} {run.tokens / run.seconds:.1f}" for run in runs)
    print(
        f"[{runs[0].level} at once, round {runs[0].round + 1}] tokens/s: {speeds}",
        file=sys.stderr,
        flush=True,
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures, and returns the report."""
    load_average = os.getloadavg()[0]
    file = read_prompts(options.prompts)
    path = resolve(options.model)
    checkpoint = load_checkpoint(path, options.model)
    items = read_items(checkpoint, file, options.limit_per_category)
    load = Load(items, options.levels, options.rounds, options.requests, options.max_tokens)
    peers = make_servers(options, load, path, max(LEVELS))
    origin = provenance(
        without_folders(shlex.join(["python", "-m", "benchmarks.serving", *sys.argv[1:]]))
    )
    settings = {"drafter": options.drafter, "max_running": max(*LEVELS, *load.levels)}
    if options.threads is not None:
        settings["threads"] = options.threads
    kept = {
        "model": without_folders(options.model),
        "quantization": checkpoint.quantization_summary(),
        "server": settings,
        "prompts": {"file": file.name, "sha256": file.sha256, "count": len(items)},
        "max_tokens": load.max_tokens,
        "least_requests": load.least,
        "llama_server": peers[0].program.version() if peers else None,
        "llama_commands": llama_commands(peers),
        "cpu": origin["cpu"],
        "git_revision": origin["git_revision"],
    }
    work = LoadWork(work_path(options.json), kept)
    work.open(load_average)
    if any(missing_rounds(load, level, work) for level in load.levels):
        with OwnServer(str(path), free_port(), settings, load.all_keys()) as own:
            measure(options, load, own, path, work)
    return make_report(origin, load, work)


def llama_commands(peers: Sequence[LlamaServer]) -> dict[str, str]:
    """How llama.cpp's server is called with each setting, for one slot."""
    return {
        each.label: without_folders(
            shlex.join(replace(each.program, slots=1).command(each.options, 0))
        )
        for each in peers
    }


def make_report(origin: Mapping[str, object], load: Load, work: LoadWork) -> dict[str, Any]:
    """Where the figures come from, how they were measured, and the figures."""
    return {
        **origin,
        "load_average_before": work.load_averages,
        "load_average_after": os.getloadavg(),
        **work.settings,
        "rounds": load.rounds,
        "results": {
            str(level): level_results([work.rounds[level, each] for each in range(load.rounds)])
            for level in load.levels
        },
    }


def main() -> None:
    """Measures, prints the tables and writes the file."""
    # Whoever ends this process ends the servers that it started.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    options = parse_arguments(__doc__ or "")
    check_arguments(options)
    try:
        report = run(options)
    except (NoAnswerError, ServerFailedError) as error:
        raise ParameterError(
            f"A server cannot be measured ({error.reason}); see that it runs and answers."
        ) from None
    if options.json is not None:
        write_report(options.json, report)
    console = Console()
    for grid in serving_grids(report):
        console.print(grid.to_rich())
    console.print(busy_warning(report))


if __name__ == "__main__":
    checked_main(main)
