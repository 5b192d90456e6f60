"""A request as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence
from oneglance.scheduler.handle import Handle
from oneglance.scheduler.request import Request

State = Literal["waiting", "reading", "decoding", "ended"]
"""Holds nothing; its prompt is being evaluated; its answer grows; has left."""


@dataclass(eq=False)
class Entry:
    """One request between passes.

    Attributes:
        handle: what the user holds.
        decoder: answers it.
        order: who comes first: the smaller one.
        deadline: when it is given up; None: never.
        leader: another request with the same prompt that reads it for both; None: there is none.
        state: see `State`.
        answer: None before it was first admitted; one that waits again has it still.
    """

    handle: Handle
    decoder: Decoder
    order: tuple[float, int]
    deadline: float | None = None
    leader: Entry | None = None
    state: State = "waiting"
    answer: DecodingSequence | None = None

    @property
    def request(self) -> Request:
        """What was asked."""
        return self.handle.request

    @property
    def is_running(self) -> bool:
        """Whether it takes part in passes."""
        return self.state in ("reading", "decoding")

    @property
    def sequence(self) -> DecodingSequence:
        """The answer of a request that was admitted."""
        assert self.answer is not None, "the request was never admitted"
        return self.answer

    @property
    def is_led(self) -> bool:
        """Whether it had better wait until its leader has read the prompt."""
        return self.leader is not None and self.leader.state in ("waiting", "reading")

    def tokens(self) -> tuple[int, ...]:
        """What is decided: the prompt, and the answer so far."""
        return self.request.prompt if self.answer is None else self.answer.history.tokens()

    def num_rows_left(self) -> int:
        """Rows that it needs before it delivers its next token, drafts not counted."""
        return self.sequence.context - self.decoder.target.length(self.sequence.handle)


def place_in_line(
    arrival: float, priority: int, ageing_seconds: float, serial: int
) -> tuple[float, int]:
    """The order of a request: when it came, with a head start for its priority.

    All that wait grow older alike, so that this never changes; and whoever came early enough
    stands before any later one, whatever its priority.

    Args:
        arrival: seconds.
        priority: higher ones go first.
        ageing_seconds: the head start for each step of priority.
        serial: the smaller one goes first among equals.
    """
    return arrival - priority * ageing_seconds, serial
