"""What a chat remembers, and its commands: no terminal here, so that each can be tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oneglance.cli.render import summary_line
from oneglance.errors import ParameterError
from oneglance.types import SpeculationStats

if TYPE_CHECKING:
    from oneglance.completion import Completion

HELP = """\
/help            this list
/reset           forget the conversation; the system message stays
/system TEXT     set the system message; without TEXT, show it
/stats           figures of the last answer and of all
/trace on|off    show the passes of each answer
/exit            leave (also Ctrl-D, or Ctrl-C at the prompt)
A backslash at the end of a line continues the message on the next one; a message that begins
with a slash is written with two. Ctrl-C during an answer stops that answer."""


@dataclass
class Conversation:
    """The state of one chat.

    Attributes:
        context_length: tokens that the model can look back on.
        system: the system message, None for none.
        is_tracing: whether passes are drawn.
        turns: user and assistant messages, oldest first.
        last: the newest answer that came to its end.
        total: counts of all such answers.
    """

    context_length: int
    system: str | None = None
    is_tracing: bool = False
    turns: list[dict[str, str]] = field(default_factory=list)
    last: Completion | None = None
    total: SpeculationStats = field(default_factory=SpeculationStats)

    def messages_with(self, user_text: str) -> list[dict[str, str]]:
        """The messages to answer next; nothing is remembered yet."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, *self.turns, {"role": "user", "content": user_text}]

    def remember(self, user_text: str, answer: str, completion: Completion | None) -> None:
        """Adds a question and its answer.

        Args:
            user_text: the question.
            answer: as much of the answer as came.
            completion: None if the answer was stopped; its counts are then not known.
        """
        self.turns.append({"role": "user", "content": user_text})
        self.turns.append({"role": "assistant", "content": answer})
        if completion is not None:
            self.last = completion
            self.total.add(completion.stats)

    def command(self, line: str) -> str | None:
        """Carries out a command.

        Args:
            line: begins with one slash.

        Returns:
            What to tell the user; None to leave.

        Raises:
            ParameterError: the command or its argument is unknown.
        """
        name, _, argument = line.partition(" ")
        argument = argument.strip()
        if name == "/system":
            return self._set_system(argument)
        if name == "/trace":
            return self._set_trace(argument)
        if argument:
            raise ParameterError(f"{name} takes no {argument!r}; /help lists the commands.")
        if name == "/help":
            return HELP
        if name == "/reset":
            self.turns.clear()
            return "The conversation is forgotten."
        if name == "/stats":
            return self._stats()
        if name == "/exit":
            return None
        raise ParameterError(f"Unknown command {name!r}; /help lists the commands.")

    def _set_system(self, text: str) -> str:
        if text:
            self.system = text
            return "The system message is set; it holds from the next answer on."
        return "There is no system message." if self.system is None else self.system

    def _set_trace(self, text: str) -> str:
        if text not in ("", "on", "off"):
            raise ParameterError(f"/trace {text!r} is not known; write /trace on or /trace off.")
        if text:
            self.is_tracing = text == "on"
        return f"The passes are {'shown' if self.is_tracing else 'not shown'}."

    def _stats(self) -> str:
        if self.last is None:
            return "There are no figures yet: no answer has come to its end."
        used = self.last.prompt_tokens + len(self.last.tokens)
        return (
            f"last answer: {summary_line(self.last.stats)}\n"
            f"all answers: {summary_line(self.total)}\n"
            f"context: {used} of {self.context_length} tokens after the last answer\n"
            "Answers that were stopped are not counted."
        )
