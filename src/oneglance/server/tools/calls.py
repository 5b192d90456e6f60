"""Finds tool calls in an answer as it comes: the text, and the arguments, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field

from oneglance.server.tools.conversation import CALL_BEGIN, CALL_END

_NAME_BEGIN = '{"name": "'
_ARGUMENTS_BEGIN = '", "arguments": '


@dataclass(frozen=True)
class CallPart:
    """A part of a call.

    Attributes:
        index: which call of the answer.
        name: of the function, with the call's first part only.
        arguments: the next characters of the arguments.
    """

    index: int
    name: str | None = None
    arguments: str = ""


@dataclass
class _JsonEnd:
    """Follows a JSON object to its closing brace."""

    depth: int = 0
    is_in_string: bool = False
    is_escaped: bool = False

    def push(self, character: str) -> bool:
        """Takes the next character; returns whether the object ends with it."""
        if self.is_escaped:
            self.is_escaped = False
        elif self.is_in_string:
            self.is_escaped = character == "\\"
            self.is_in_string = character != '"'
        elif character == '"':
            self.is_in_string = True
        elif character in "{[":
            self.depth += 1
        elif character in "}]":
            self.depth -= 1
            return self.depth == 0
        return False


@dataclass
class CallReader:
    """Splits the text of an answer into what is said and what is called.

    The grammar of an answer with tools (`grammar.py`) has calls in one spelling only, so that this
    reader never has to guess. What may be the beginning of a call is held back until that is clear.

    Attributes:
        num_calls: calls that have begun.
    """

    num_calls: int = 0
    _buffer: str = ""
    _json: _JsonEnd | None = None
    _is_behind_call: bool = False
    _parts: list[CallPart] = field(default_factory=list)
    _text: str = ""

    @property
    def is_within_call(self) -> bool:
        """Whether the last call that has begun is not whole."""
        return self._json is not None or self._is_in_call()

    def push(self, text: str) -> tuple[str, list[CallPart]]:
        """Takes the next text of the answer; returns what is said in it, and parts of calls."""
        self._buffer += text
        while self._step():
            pass
        return self._take()

    def flush(self) -> tuple[str, list[CallPart]]:
        """What was held back when the answer ended; a call that was cut off stays so."""
        if not self.is_within_call:
            self._text += self._buffer
            self._buffer = ""
        return self._take()

    def _step(self) -> bool:
        """Takes one thing off the buffer; returns whether there may be another."""
        if self._json is not None:
            return self._read_arguments(self._json)
        if self._is_in_call():
            return self._read_name()
        if self._is_behind_call and self._buffer:
            # A line break stands between calls, and is no word of the answer.
            self._buffer = self._buffer.removeprefix("\n")
            self._is_behind_call = False
            return True
        before, found, _ = self._buffer.partition(CALL_BEGIN)
        if found:
            self._text += before
            self._buffer = self._buffer[len(before) :]
            return True
        held = next(
            size
            for size in range(min(len(CALL_BEGIN) - 1, len(before)), -1, -1)
            if before.endswith(CALL_BEGIN[:size])
        )
        self._text += before[: len(before) - held]
        self._buffer = before[len(before) - held :]
        return False

    def _is_in_call(self) -> bool:
        return self._buffer.startswith(CALL_BEGIN)

    def _read_name(self) -> bool:
        begin = CALL_BEGIN + _NAME_BEGIN
        name, found, rest = self._buffer[len(begin) :].partition(_ARGUMENTS_BEGIN)
        if not found:
            return False
        self._parts.append(CallPart(self.num_calls, name))
        self.num_calls += 1
        self._buffer = rest
        self._json = _JsonEnd()
        return True

    def _read_arguments(self, json_end: _JsonEnd) -> bool:
        for place, character in enumerate(self._buffer):
            if json_end.depth == 0 and place == 0 and character == "}":
                return self._leave_call()
            if json_end.push(character):
                self._add_arguments(self._buffer[: place + 1])
                self._buffer = self._buffer[place + 1 :]
                return self._leave_call()
        if json_end.depth > 0:
            self._add_arguments(self._buffer)
            self._buffer = ""
        return False

    def _add_arguments(self, text: str) -> None:
        if text:
            self._parts.append(CallPart(self.num_calls - 1, None, text))

    def _leave_call(self) -> bool:
        """Takes the end of a call off the buffer, when all of it is there."""
        end = "}" + CALL_END
        if len(self._buffer) < len(end):
            return False
        self._buffer = self._buffer[len(end) :]
        self._json = None
        self._is_behind_call = True
        return True

    def _take(self) -> tuple[str, list[CallPart]]:
        text, parts = self._text, self._parts
        self._text, self._parts = "", []
        return text, parts
