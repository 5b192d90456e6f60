"""`oneglance chat`: a conversation, from a terminal or from piped lines."""

from __future__ import annotations

import signal
import sys
from contextlib import closing, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from oneglance.cli.options import Options, check_text, takes_options
from oneglance.errors import CapacityError, OneglanceError, ParameterError

if TYPE_CHECKING:
    from oneglance.cli.conversation import Conversation
    from oneglance.config import SamplingParams
    from oneglance.llm import LLM


@takes_options
def chat(options: Options) -> None:
    """Talk with a model; /help lists the commands. Piped lines are messages too."""
    from oneglance.cli.answer import load_model
    from oneglance.cli.conversation import Conversation
    from oneglance.cli.render import engine_text

    params = options.sampling_params()
    system = None if options.system is None else check_text("--system", options.system)
    with load_model(options) as llm:
        length = llm.checkpoint.config.context_length
        conversation = Conversation(length, system=system, is_tracing=options.trace)
        is_interactive = sys.stdin.isatty()
        if is_interactive:
            with suppress(ImportError):
                import readline  # noqa: F401  # gives input() a history and line editing
            engine = engine_text(llm.engine.info)
            print(
                f"{options.model}, drafter {llm.drafter_name}, {engine}. /help lists the commands."
            )
        Chat(llm, conversation, params, is_interactive).run()


class Chat:
    """The loop between a user's lines and the model's answers."""

    def __init__(
        self,
        llm: LLM,
        conversation: Conversation,
        params: SamplingParams,
        is_interactive: bool,
    ) -> None:
        """Takes what the command line asked for; nothing is read yet.

        Args:
            llm: the model.
            conversation: what is remembered.
            params: how each answer is sampled.
            is_interactive: whether a person types; otherwise lines are piped.
        """
        from rich.console import Console

        self._llm = llm
        self._conversation = conversation
        self._params = params
        self._is_interactive = is_interactive
        self._console = Console()

    def run(self) -> None:
        """Reads and answers until the input ends, `/exit`, or Ctrl-C at the prompt.

        Raises:
            OneglanceError: a piped line cannot be served. Who types can try again; a script must
                learn of it.
        """
        from oneglance.cli.answer import print_note

        is_open = True
        while is_open:
            try:
                line = read_message(self._is_interactive)
                is_open = line is not None and self._take(line)
            except KeyboardInterrupt:
                is_open = False
            except OneglanceError as error:
                if not self._is_interactive:
                    raise
                print_note(f"oneglance: {error}")
        if self._is_interactive:
            print()

    def _take(self, line: str) -> bool:
        """Carries out a line; False to leave."""
        from oneglance.cli.answer import print_line

        if line.startswith("/") and not line.startswith("//"):
            reply = self._conversation.command(line)
            if reply is None:
                return False
            print_line(self._console, reply)
        elif line.strip():
            self._answer(line[1:] if line.startswith("//") else line)
        return True

    def _answer(self, text: str) -> None:
        from oneglance.cli.answer import Shown, print_note, show_answer, show_summary

        messages = self._conversation.messages_with(text)
        try:
            pieces = self._llm.stream(messages, params=self._params)
        except CapacityError as error:
            raise CapacityError(
                f"{error} The conversation is kept as it was; /reset starts a new one."
            ) from None
        shown = Shown()
        try:
            with StopOnInterrupt() as interrupt, closing(pieces):
                show_answer(
                    pieces,
                    shown,
                    self._console,
                    self._llm.tokenizer,
                    self._conversation.is_tracing,
                    interrupt.is_requested,
                )
        except KeyboardInterrupt:
            pass  # the second Ctrl-C: what came before it is in `shown`
        if shown.completion is not None:
            self._conversation.remember(text, shown.text, shown.completion)
            show_summary(shown.completion, self._params.max_tokens)
        elif shown.text:
            self._conversation.remember(text, shown.text, None)
            print_note("Stopped; the answer is kept as far as it came.")
        else:
            print_note("Stopped before the answer began; the message is not kept.")


class StopOnInterrupt:
    """While it is entered, the first Ctrl-C asks for a stop and the second one interrupts.

    An interrupt in the middle of a pass could leave the engine between two states; between
    passes it cannot. A long prompt is one wait without an end in sight, hence the second.
    """

    def __init__(self) -> None:
        """Nothing is requested yet."""
        self._is_requested = False
        self._previous: Any = None

    def is_requested(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._is_requested

    def __enter__(self) -> StopOnInterrupt:
        """Takes over SIGINT."""
        self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives SIGINT back."""
        signal.signal(signal.SIGINT, self._previous)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_requested:
            raise KeyboardInterrupt
        self._is_requested = True


def read_message(is_interactive: bool) -> str | None:
    """Reads a message; a line that ends in a backslash continues on the next.

    Args:
        is_interactive: show a prompt and offer line editing.

    Returns:
        The message, None at the end of the input.

    Raises:
        ParameterError: the input is not UTF-8.
    """
    lines: list[str] = []
    while (line := _read_line(". " if lines else "> ", is_interactive)) is not None:
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line[:-1])
    return "\n".join(lines) if lines and not is_interactive else None


def _read_line(prompt: str, is_interactive: bool) -> str | None:
    try:
        if is_interactive:
            return check_text("The message", input(prompt))
        line = sys.stdin.buffer.readline().decode("utf-8")
    except EOFError:
        return None
    except UnicodeDecodeError as error:
        raise ParameterError(
            f"The message is not UTF-8 (byte {error.start}); convert it to UTF-8."
        ) from None
    return line.rstrip("\r\n") if line else None
