"""`oneglance demo`: the same answers without and with drafting, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from oneglance.cli.options import Options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from oneglance.completion import Completion
    from oneglance.llm import LLM

SHORT_PROMPT = "What is the capital of France?"
COPY_PROMPT = """\
Repeat this text:

The river rises in the mountains and flows through three countries before it reaches the sea. \
In spring the snow melts and the river is so wide that no bridge can cross it. In summer the \
river is so low that one can walk through it, and in winter it is covered with ice."""
PROMPTS = ((SHORT_PROMPT, 48), (COPY_PROMPT, 96))
"""Each prompt with the most tokens to deliver."""


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


@dataclass(frozen=True)
class Comparison:
    """The same answer twice: every token decoded by itself, and with a drafter."""

    plain: Run
    speculative: Run

    @property
    def is_identical(self) -> bool:
        """Whether both are the same tokens and the same text."""
        plain, speculative = self.plain.completion, self.speculative.completion
        return plain.token_ids == speculative.token_ids and plain.text == speculative.text

    def verdict(self) -> str:
        """One sentence for the text, one for the speed; a loss is called a loss."""
        text = "The texts are identical, bit for bit."
        if not self.is_identical:
            text = "THE TEXTS DIFFER: drafting changed the answer, which is a bug."
        ratio = self.plain.decode_seconds / self.speculative.decode_seconds
        speed = f"Drafting made it {ratio:.2f} times as fast."
        if ratio < 1:
            speed = f"Drafting made it slower here: {ratio:.2f} times the plain speed."
        return f"{text} {speed}"


def demo() -> None:
    """Answer two prompts without and with drafting, and compare texts and speeds."""
    from rich.console import Console

    from oneglance.cli.answer import load_model, print_line
    from oneglance.cli.render import is_coloured, legend

    console = Console()
    options = Options()
    with load_model(options) as llm:
        llm.generate(SHORT_PROMPT, drafter="none", max_tokens=1)  # touches every weight once
        print_line(console, f"{options.model}, drafter {llm.drafter_name}, greedy\n")
        print_line(console, legend(is_coloured(console)))
        comparisons = [_show(llm, console, prompt, limit) for prompt, limit in PROMPTS]
    if not all(comparison.is_identical for comparison in comparisons):
        raise typer.Exit(1)


def _show(llm: LLM, console: Console, prompt: str, max_tokens: int) -> Comparison:
    from oneglance.cli.answer import print_line
    from oneglance.cli.render import harmless, is_coloured, render_passes

    print_line(console, f"\n> {prompt}\n")
    comparison = compare(llm, prompt, max_tokens)
    completion = comparison.speculative.completion
    for line in render_passes(completion.trace, llm.tokenizer, is_coloured(console)):
        print_line(console, line)
    print_line(console, f"\n{harmless(completion.text)}\n")
    console.print(comparison_table(comparison))
    print_line(console, comparison.verdict())
    return comparison


def compare(llm: LLM, prompt: str, max_tokens: int) -> Comparison:
    """Answers a prompt twice, first without drafting, both times greedily."""
    plain = _measure(llm, prompt, max_tokens, drafter="none")
    return Comparison(plain, _measure(llm, prompt, max_tokens, drafter=None))


def _measure(llm: LLM, prompt: str, max_tokens: int, drafter: str | None) -> Run:
    start = time.perf_counter()
    completion = llm.generate(prompt, drafter=drafter, max_tokens=max_tokens)
    seconds = time.perf_counter() - start
    return Run(completion, seconds - completion.stats.prefill_seconds)


def comparison_table(comparison: Comparison) -> Table:
    """The figures of both runs, one column each."""
    from rich import box
    from rich.table import Table

    from oneglance.cli.render import rate_text

    runs = (comparison.plain, comparison.speculative)
    stats = [run.completion.stats for run in runs]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("without drafting", justify="right")
    table.add_column(f"with {comparison.speculative.completion.drafter}", justify="right")
    table.add_row("tokens", *(str(item.delivered) for item in stats))
    table.add_row("passes of the model", *(str(item.passes) for item in stats))
    table.add_row("mean accepted length", *(f"{item.mean_accepted_length:.2f}" for item in stats))
    table.add_row("acceptance rate", *(rate_text(item) for item in stats))
    table.add_row("tokens per second", *(f"{run.tokens_per_second:.1f}" for run in runs))
    return table
