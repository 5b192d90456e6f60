"""Prompt lookup: what followed the last few tokens before will follow them again.

Saxena, "Prompt Lookup Decoding" (2023). Costs microseconds and no weights;
pays where the answer repeats the prompt or itself (code edits, quotes, summaries). The draft is a
function of the prefix, so it is verified as a point mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.errors import ParameterError
from oneglance.types import Proposal


@dataclass
class NgramSession:
    """One request's tokens, and where each n-gram was last followed by something."""

    eos_ids: frozenset[int]
    tokens: list[int] = field(default_factory=list)
    followers: dict[tuple[int, ...], int] = field(default_factory=dict)


class NgramDrafter(Drafter[NgramSession]):
    """Looks for the longest n-gram at the end of the text that occurred before, latest first."""

    name = "ngram"

    def __init__(self, min_ngram: int = 2, max_ngram: int = 4) -> None:
        """Sets the lengths of n-gram that are tried, longest first.

        Raises:
            ParameterError: not 1 ≤ min_ngram ≤ max_ngram.
        """
        if not 1 <= min_ngram <= max_ngram:
            raise ParameterError(
                f"min_ngram = {min_ngram} and max_ngram = {max_ngram} cannot be used; "
                "they must be 1 or more, the first not above the second."
            )
        self._lengths = range(max_ngram, min_ngram - 1, -1)

    def start(self, context: DraftContext) -> NgramSession:
        """Indexes the prompt."""
        session = NgramSession(context.eos_ids)
        self.observe(session, context.prompt)
        return session

    def propose(self, requests: Sequence[DraftRequest[NgramSession]]) -> list[Proposal]:
        """Copies what followed the match, through its own end if the match reaches that far."""
        return [
            Proposal.chain(self._lookup(request.session, _limit(request)), drafter=self.name)
            for request in requests
        ]

    def observe(self, session: NgramSession, tokens: Sequence[int]) -> None:
        """Appends tokens; each n-gram that one of them follows now points at it."""
        for token in tokens:
            for length in self._lengths:
                if length <= len(session.tokens):
                    session.followers[tuple(session.tokens[-length:])] = len(session.tokens)
            session.tokens.append(token)

    def close(self, session: NgramSession) -> None:
        """Forgets the request."""
        session.tokens.clear()
        session.followers.clear()

    def _lookup(self, session: NgramSession, num_draft_tokens: int) -> list[int]:
        for length in self._lengths:
            if length > len(session.tokens):
                continue
            start = session.followers.get(tuple(session.tokens[-length:]))
            if start is not None:
                return _copy(session, start, num_draft_tokens)
        return []


def _limit(request: DraftRequest[NgramSession]) -> int:
    """A chain has as many tokens as it is deep, so that both limits bound it."""
    if request.num_tree_nodes is None:
        return request.num_draft_tokens
    return min(request.num_draft_tokens, request.num_tree_nodes)


def _copy(session: NgramSession, start: int, count: int) -> list[int]:
    """The `count` tokens from `start` on; past the end it reads its own copy, so loops go on."""
    period = len(session.tokens) - start
    draft: list[int] = []
    for offset in range(count):
        token = session.tokens[start + offset] if offset < period else draft[offset - period]
        draft.append(token)
        if token in session.eos_ids:  # nothing that follows it can be delivered
            break
    return draft
