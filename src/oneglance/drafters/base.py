"""What a drafter is: start, propose, observe, close.

A drafter serves many requests; what it knows of one lives in a session object of its own. It
guesses in any way it likes: exactness asks only that a token which was drawn at random carries
the law it was drawn from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from oneglance.config import SamplingParams
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.types import Proposal


@dataclass(frozen=True)
class DraftContext:
    """What a drafter is told when a request starts.

    Attributes:
        prompt: the prompt's token ids.
        params: the request's sampling parameters; a sampled drafter applies the same warps.
        noise: the request's randomness. Under `KeyedNoise` (a seed) a sampled drafter draws with
            the target's own noise for each position, so that they agree as often as possible.
        eos_ids: end-of-text tokens, as the target knows them.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    noise: Noise | KeyedNoise
    eos_ids: frozenset[int] = frozenset()


Session = TypeVar("Session")


@dataclass(frozen=True)
class DraftRequest(Generic[Session]):
    """One sequence's wish in a call of `propose`: its session and the most tokens to draft."""

    session: Session
    num_draft_tokens: int


class Drafter(ABC, Generic[Session]):
    """Guesses the next tokens of sequences. `Session` is its per-request state."""

    name: str

    @abstractmethod
    def start(self, context: DraftContext) -> Session:
        """Begins a request; the session holds whatever the drafter needs to know of it."""

    @abstractmethod
    def propose(self, requests: Sequence[DraftRequest[Session]]) -> list[Proposal]:
        """Drafts for several sequences at once.

        Returns:
            One proposal per request, of at most `num_draft_tokens` tokens; an empty one where
            the drafter has nothing to say or must not go on (its own context is full, say).
        """

    @abstractmethod
    def observe(self, session: Session, tokens: Sequence[int]) -> None:
        """Tells a session which tokens were decided since the last call, in order."""

    @abstractmethod
    def close(self, session: Session) -> None:
        """Ends a request and frees what its session holds."""
