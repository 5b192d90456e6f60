"""No drafter of its own: plain decoding, or what a constraint makes certain and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.types import Proposal


class NoDrafter(Drafter[None]):
    """Proposes nothing."""

    name = "none"
    chooses_length = True
    is_plain = True

    def start(self, context: DraftContext) -> None:
        """Needs to know nothing."""

    def propose(self, requests: Sequence[DraftRequest[None]]) -> list[Proposal]:
        """An empty proposal for each."""
        return [Proposal.empty(self.name) for _ in requests]

    def observe(self, session: None, tokens: Sequence[int]) -> None:
        """Learns nothing."""

    def close(self, session: None) -> None:
        """Holds nothing."""


class GrammarDrafter(NoDrafter):
    """Leaves drafting to the request's constraint: tokens that are certain are drafted.

    They are with every other drafter too; this one adds nothing to them. Without a constraint it is
    plain decoding.
    """

    name = "grammar"
    is_plain = False
