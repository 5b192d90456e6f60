"""How much faster each drafter is than plain decoding, in paired runs of the same answers.

    python -m benchmarks.drafters --stage default --prompts FILE --json drafters.json
    python -m benchmarks.drafters --stage pair --prompts FILE --drafters ngram draft:MODEL@k=6
    python -m benchmarks.drafters --stage edits --llama-server PATH --llama-model TARGET.gguf

Each prompt is answered by plain decoding and by every drafter in turn, in one process, on one
loaded model, the order turned from prompt to prompt and from round to round. The answers must be
equal token for token, greedy ones and those with a seed, or the run fails. With `--json` every
finished group of runs is kept in a work file beside it, so that an interrupted benchmark goes on
where it was. With `--llama-server` llama.cpp's server answers the same prompts in the same groups.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from rich.console import Console

from benchmarks.drafters_options import check_arguments, parse_arguments
from benchmarks.drafters_prediction import OwnAnswerQuestions
from benchmarks.drafters_stages import CODE_EDITS, STAGES, Stage, load_target
from benchmarks.llama_server import LlamaProgram, LlamaServer, parse_settings
from benchmarks.options import checked_main
from oneglance.bench.figures import samples
from oneglance.bench.grid import busy_warning
from oneglance.bench.measure import Ask, Questions, measure, warm_up
from oneglance.bench.plan import Plan
from oneglance.bench.prompts import PromptFile, first_of_each_category, read_prompts
from oneglance.bench.report import make_report, write_report
from oneglance.bench.run import Run
from oneglance.bench.session import settings_of, work_path
from oneglance.bench.subject import PLAIN, Subject, check_labels, without_folders
from oneglance.bench.tables import drafter_grids
from oneglance.bench.variant import Variant, make_variants
from oneglance.bench.work import WorkFile
from oneglance.cli.provenance import provenance
from oneglance.llm import LLM


def make_plan(options: argparse.Namespace, stage: Stage, file: PromptFile) -> Plan:
    """What is asked."""
    return Plan(
        prompts=first_of_each_category(file.prompts, options.limit_per_category),
        temperatures=tuple(options.temperatures),
        rounds=options.rounds,
        max_tokens=options.max_tokens or stage.max_tokens,
        is_seeded=not options.unseeded,
    )


def make_questions(stage: Stage, plan: Plan, llm: LLM, plain: Variant) -> Ask:
    """What makes the stage's questions."""
    questions = Questions(plan, llm.encode)
    if not stage.predicts_own_answer:
        return questions
    return OwnAnswerQuestions(questions, plain, llm.tokenizer)


def make_servers(
    options: argparse.Namespace, llm: LLM, plan: Plan
) -> tuple[LlamaProgram | None, list[LlamaServer]]:
    """llama.cpp's server with each of its settings; not running yet."""
    if options.llama_server is None:
        return None, []
    longest = max(len(llm.encode(prompt.text)) for prompt in plan.prompts)
    program = LlamaProgram(
        path=options.llama_server,
        model=options.llama_model,
        draft=options.llama_draft,
        num_threads=llm.engine.info.num_threads,
        context=longest + plan.max_tokens + 64,
    )
    settings = parse_settings(options.llama_setting, program)
    return program, [LlamaServer(program, name, words) for name, words in settings.items()]


def show_progress(number: int, total: int, runs: Mapping[str, Run]) -> None:
    """A line on stderr for each group."""
    plain = runs[PLAIN]
    ratios = ", ".join(
        f"{label} {run.speed / plain.speed:.2f}" for label, run in runs.items() if label != PLAIN
    )
    print(
        f"[{number}/{total}] T={plain.temperature:g} {plain.category} {plain.prompt}: "
        f"{plain.tokens} tokens, plain {plain.speed:.1f} tokens/s; times as fast: {ratios}",
        file=sys.stderr,
        flush=True,
    )


def run(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measures, and returns the report."""
    load_average = os.getloadavg()[0]
    stage = STAGES[options.stage]
    model = options.model or stage.model
    file = read_prompts(options.prompts or CODE_EDITS)
    plan = make_plan(options, stage, file)
    llm = load_target(stage, model, options.threads)
    command = shlex.join(["python", "-m", "benchmarks.drafters", *sys.argv[1:]])
    origin = provenance(without_folders(command))
    settings = {"stage": options.stage, **settings_of(model, llm, file, plan, origin)}
    work = WorkFile(work_path(options.json), settings)
    work.open(load_average)
    variants = make_variants(options.drafters or stage.drafters, llm)
    check_labels(variants)
    ask = make_questions(stage, plan, llm, variants[0])
    program, servers = make_servers(options, llm, plan)
    with ExitStack() as running, llm:
        subjects: list[Subject] = [*variants, *map(running.enter_context, servers)]
        for label in warm_up(plan, ask, subjects):
            console.print(f"warm-up: {label}")
        groups = measure(plan, ask, subjects, work, show_progress)
    described = {each.label: each.describe() for each in variants}
    report = make_report(origin, plan, described, groups, work)
    report["samples"] = samples(groups)
    if program is not None:
        words = {each.label: shlex.join(program.command(each.options, 0)) for each in servers}
        report["llama_server"] = program.version()
        report["llama_commands"] = {key: without_folders(text) for key, text in words.items()}
    return report


def main() -> None:
    """Measures, prints the tables and writes the file."""
    # Whoever ends this process ends the servers that it started.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    options = parse_arguments(__doc__ or "")
    check_arguments(options)
    report = run(options, Console(stderr=True))
    console = Console()
    for grid in drafter_grids(report):
        console.print(grid.to_rich())
    console.print(busy_warning(report))
    if options.json is not None:
        write_report(options.json, report)


if __name__ == "__main__":
    checked_main(main)
