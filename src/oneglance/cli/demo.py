"""`oneglance demo`: the same answers without and with drafting, side by side."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from oneglance.cli.options import EngineOption, Options, ThreadsOption, WeightsOption
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from oneglance.completion import Completion
    from oneglance.llm import LLM
    from oneglance.types import EngineInfo

SHORT_PROMPT = "Name the capital of France."
COPY_PROMPT = """\
Repeat this text:

The river rises in the mountains and flows through three countries before it reaches the sea. \
In spring the snow melts and the river is so wide that no bridge can cross it. In summer the \
river is so low that one can walk through it, and in winter it is covered with ice."""
FREE_PROMPT = "Write a short poem about the sea."
PROMPTS = ((SHORT_PROMPT, 48), (COPY_PROMPT, 96), (FREE_PROMPT, 64))
"""Each prompt with the most tokens to deliver: a short answer, a copy, free writing."""


@dataclass(frozen=True)
class Run:
    """One measured answer.

    Attributes:
        completion: the answer.
        decode_seconds: wall-clock time of the whole call, less the time that read the prompt.
    """

    completion: Completion
    decode_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Delivered tokens ÷ `decode_seconds`."""
        return len(self.completion.tokens) / self.decode_seconds

    def to_dict(self) -> dict[str, object]:
        """Counts, rates and seconds, for the file of `--json`."""
        stats = self.completion.stats
        return {
            "passes": stats.passes,
            "drafted": stats.drafted,
            "accepted": stats.accepted,
            "acceptance_rate": stats.acceptance_rate,
            "mean_accepted_length": stats.mean_accepted_length,
            "delivered": stats.delivered,
            "seconds": {
                "prefill": stats.prefill_seconds,
                "draft": stats.draft_seconds,
                "verify": stats.verify_seconds,
                "accept": stats.accept_seconds,
                "decode": self.decode_seconds,
            },
            "tokens_per_second": self.tokens_per_second,
        }


@dataclass(frozen=True)
class Comparison:
    """The same answer with every token decoded by itself, and with a drafter: a run each round."""

    plain: tuple[Run, ...]
    speculative: tuple[Run, ...]

    @property
    def is_identical(self) -> bool:
        """Whether all runs are the same tokens and the same text."""
        answers = [run.completion for run in (*self.plain, *self.speculative)]
        return len({(answer.token_ids, answer.text) for answer in answers}) == 1

    @property
    def speedup(self) -> float:
        """Median decoding time without drafting ÷ that with it."""
        plain, speculative = (
            median(run.decode_seconds for run in runs) for runs in (self.plain, self.speculative)
        )
        return plain / speculative

    def verdict(self) -> str:
        """One sentence for the text, one for the speed; a loss is called a loss."""
        text = "The texts are identical, bit for bit."
        if not self.is_identical:
            text = "THE TEXTS DIFFER: drafting changed the answer, which is a bug."
        speed = f"Drafting made it {self.speedup:.2f} times as fast."
        if self.speedup < 1:
            speed = f"Drafting made it slower here: {self.speedup:.2f} times the plain speed."
        return f"{text} {speed}"

    def to_dict(self) -> dict[str, object]:
        """Every run, for the file of `--json`."""
        return {
            "is_identical": self.is_identical,
            "speedup": self.speedup,
            "plain": [run.to_dict() for run in self.plain],
            "speculative": [run.to_dict() for run in self.speculative],
        }


def demo(
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Answer each prompt N times in both ways.")
    ] = 1,
    json_path: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write what was measured to FILE."),
    ] = None,
    engine: EngineOption = "auto",
    weights: WeightsOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Answer three prompts without and with drafting, and compare texts and speeds."""
    from rich.console import Console

    from oneglance.cli.answer import print_line
    from oneglance.cli.render import engine_text, is_coloured, legend

    if json_path is not None and (json_path.is_dir() or not json_path.parent.is_dir()):
        raise ParameterError(
            f"--json {str(json_path)!r} cannot be written; name a file in a folder that exists."
        )
    console = Console()
    options = Options(engine=engine, weights=weights, threads=threads)
    with _load(options) as llm:
        llm.generate(SHORT_PROMPT, drafter="none", max_tokens=1)  # touches every weight once
        ran = engine_text(llm.engine.info)
        print_line(console, f"{options.model}, drafter {llm.drafter_name}, greedy, {ran}\n")
        print_line(console, legend(is_coloured(console)))
        comparisons = [_show(llm, console, prompt, limit, rounds) for prompt, limit in PROMPTS]
    if json_path is not None:
        _write(json_path, options, rounds, llm.engine.info, comparisons)
    if not all(comparison.is_identical for comparison in comparisons):
        raise typer.Exit(1)


def _load(options: Options) -> LLM:
    """Loads the model so that no run finds the prompt of an earlier one in the cache."""
    from rich.console import Console

    from oneglance.cli.progress import progress_bar
    from oneglance.llm import load

    config = replace(options.engine_config(), kept_prefixes=0)
    with progress_bar(Console(stderr=True)) as report:
        return load(options.model, options.drafter, options.draft_length(), config, report)


def _show(llm: LLM, console: Console, prompt: str, max_tokens: int, rounds: int) -> Comparison:
    from oneglance.cli.answer import print_line
    from oneglance.cli.render import is_coloured, render_passes
    from oneglance.show.visible import harmless

    print_line(console, f"\n> {prompt}\n")
    comparison = compare(llm, prompt, max_tokens, rounds)
    completion = comparison.speculative[0].completion
    for line in render_passes(completion.trace, llm.tokenizer, is_coloured(console)):
        print_line(console, line)
    print_line(console, f"\n{harmless(completion.text)}\n")
    console.print(comparison_table(comparison))
    print_line(console, comparison.verdict())
    return comparison


def compare(llm: LLM, prompt: str, max_tokens: int, rounds: int = 1) -> Comparison:
    """Answers a prompt without and with drafting, greedily.

    The two take turns in going first, so that a machine that grows slower or faster meanwhile
    favours neither.
    """
    plain: list[Run] = []
    speculative: list[Run] = []
    for number in range(rounds):
        turns = [("none", plain), (None, speculative)]
        for drafter, runs in turns if number % 2 == 0 else reversed(turns):
            runs.append(_measure(llm, prompt, max_tokens, drafter))
    return Comparison(tuple(plain), tuple(speculative))


def _measure(llm: LLM, prompt: str, max_tokens: int, drafter: str | None) -> Run:
    start = time.perf_counter()
    completion = llm.generate(prompt, drafter=drafter, max_tokens=max_tokens)
    seconds = time.perf_counter() - start
    return Run(completion, seconds - completion.stats.prefill_seconds)


def comparison_table(comparison: Comparison) -> Table:
    """The figures of both ways, one column each; of speeds, the median of the rounds."""
    from rich import box
    from rich.table import Table

    from oneglance.cli.render import rate_text

    sides = (comparison.plain, comparison.speculative)
    stats = [runs[0].completion.stats for runs in sides]
    speeds = [median(run.tokens_per_second for run in runs) for runs in sides]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("without drafting", justify="right")
    table.add_column(f"with {comparison.speculative[0].completion.drafter}", justify="right")
    table.add_row("tokens", *(str(item.delivered) for item in stats))
    table.add_row("passes of the model", *(str(item.passes) for item in stats))
    table.add_row("mean accepted length", *(f"{item.mean_accepted_length:.2f}" for item in stats))
    table.add_row("acceptance rate", *(rate_text(item) for item in stats))
    table.add_row("tokens per second, prompt excluded", *(f"{speed:.1f}" for speed in speeds))
    return table


def _write(
    path: Path, options: Options, rounds: int, engine: EngineInfo, comparisons: list[Comparison]
) -> None:
    from oneglance.cli.provenance import provenance

    command = ["oneglance", "demo", "--rounds", str(rounds), "--json", str(path)]
    command += options.engine_arguments()
    report = {
        **provenance(shlex.join(command)),
        "model": options.model,
        "engine": engine.to_dict(),
        "drafter": options.drafter,
        "k": options.k,
        "answers": [
            {"prompt": prompt, "max_tokens": max_tokens, **comparison.to_dict()}
            for (prompt, max_tokens), comparison in zip(PROMPTS, comparisons, strict=True)
        ],
    }
    try:
        path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ParameterError(
            f"--json {str(path)!r} cannot be written ({error.strerror}); name another file."
        ) from None
