"""One answer of one subject, as it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from oneglance.bench.plan import Group
from oneglance.bench.subject import Answer


@dataclass(frozen=True)
class Run:
    """One answer of one subject, without its tokens.

    Attributes:
        prompt: its id.
        category: of the prompt.
        temperature: at which it was answered.
        round: from 0 on.
        subject: label of who answered.
        tokens, seconds, prefill_seconds, draft_seconds, passes, drafted, accepted, depths,
            verify_seconds, accept_seconds, first_token_seconds: as in `Answer`.
        is_identical: whether it is the answer of the group's first subject; None where that was
            not compared.
    """

    prompt: str
    category: str
    temperature: float
    round: int
    subject: str
    tokens: int
    seconds: float
    prefill_seconds: float | None
    draft_seconds: float
    passes: int | None
    drafted: int
    accepted: int
    depths: tuple[tuple[int, int], ...]
    verify_seconds: float = 0.0
    accept_seconds: float = 0.0
    first_token_seconds: float | None = None
    is_identical: bool | None = None

    @classmethod
    def of(cls, group: Group, subject: str, answer: Answer, is_identical: bool | None) -> Run:
        """What is kept of an answer."""
        numbers = asdict(answer)
        del numbers["token_ids"], numbers["text"]
        prompt = group.prompt
        return cls(
            prompt=prompt.id,
            category=prompt.category,
            temperature=group.temperature,
            round=group.round,
            subject=subject,
            is_identical=is_identical,
            **numbers,
        )

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Run:
        """A run as JSON has it."""
        depths = tuple((int(drafted), int(accepted)) for drafted, accepted in fields["depths"])
        return cls(**{**fields, "depths": depths})

    @property
    def decode_seconds(self) -> float:
        """Without the target's reading of the prompt, which must be known."""
        assert self.prefill_seconds is not None, "another program does not tell"
        return self.seconds - self.prefill_seconds

    @property
    def speed(self) -> float:
        """Tokens per second of decoding, where the reading of the prompt is known."""
        return self.tokens / self.decode_seconds

    @property
    def speed_with_prompt(self) -> float:
        """Tokens per second, the reading of the prompt included."""
        return self.tokens / self.seconds
