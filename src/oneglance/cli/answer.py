"""Loads the model that the options name and puts an answer on the terminal as it comes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from oneglance.cli.render import (
    TraceRenderer,
    engine_text,
    is_coloured,
    legend,
    summary_line,
)
from oneglance.show.visible import harmless

if TYPE_CHECKING:
    from oneglance.checkpoints.base import Tokenizer
    from oneglance.cli.options import Options
    from oneglance.completion import Completion, Piece
    from oneglance.llm import LLM


def load_model(options: Options) -> LLM:
    """Loads the model and drafter, with progress on stderr.

    Raises:
        OneglanceError: the model or drafter is unknown, cannot be fetched or cannot be read.
    """
    length = options.draft_length()
    engine = options.engine_config()
    from oneglance.cli.progress import progress_bar
    from oneglance.llm import load

    with progress_bar(Console(stderr=True)) as report:
        return load(options.model, options.drafter, length, engine, report, options.tree_nodes)


@dataclass
class Shown:
    """What of an answer has reached the screen.

    Attributes:
        completion: the whole result; None if the answer was stopped before its end.
        parts: the pieces of text, in order.
    """

    completion: Completion | None = None
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.parts)


def show_answer(
    pieces: Iterator[Piece],
    shown: Shown,
    console: Console,
    tokenizer: Tokenizer,
    is_tracing: bool,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Writes pieces as they come: text, or with `is_tracing` the passes and then the text.

    Args:
        pieces: the answer; it is left where it stands when `is_stopped` turns true.
        shown: filled as it goes, so that an interrupted caller has what came until then.
        console: where to write.
        tokenizer: of the target, to draw passes.
        is_tracing: whether to draw passes.
        is_stopped: asked after every piece.
    """
    renderer = TraceRenderer(tokenizer, is_coloured(console))
    if is_tracing:
        print_line(console, legend(is_coloured(console)))
    try:
        for piece in pieces:
            shown.parts.append(piece.text)
            shown.completion = piece.completion
            if is_tracing:
                print_line(console, renderer.draw(piece.trace))
            else:
                write_text(piece.text)
            if is_stopped():
                break
    finally:
        if is_tracing and shown.text:
            write_text("\n" + shown.text)
        if shown.text:
            write_text("\n")


def write_text(text: str) -> None:
    """Writes model text to stdout at once; a terminal gets no control characters from it."""
    sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_line(console: Console, line: Text | str) -> None:
    """Prints text; a terminal gets it broken between words, a file or pipe unbroken."""
    text = Text(line) if isinstance(line, str) else line
    console.print(text, soft_wrap=not console.is_terminal)


def print_note(text: str) -> None:
    """Prints text on stderr, as `print_line` does."""
    print_line(Console(stderr=True), text)


def show_summary(completion: Completion, max_tokens: int | None) -> None:
    """Puts the figures of an answer on stderr, where that is a terminal."""
    if sys.stderr.isatty():
        print_note(
            f"{summary_line(completion.stats)} · {engine_text(completion.engine)}"
            f"{ending(completion, max_tokens)}"
        )


def ending(completion: Completion, max_tokens: int | None) -> str:
    """Why an answer ended early, for the end of its summary; empty if it ended by itself."""
    if completion.finish_reason != "length":
        return ""
    if len(completion.tokens) == max_tokens:
        return f" · ended by --max-tokens {max_tokens}"
    return " · ended because the context is full"
