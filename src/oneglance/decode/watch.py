"""Looking on while an answer is decoded: what each pass drafted, saw and decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from oneglance.types import Proposal
from oneglance.verify.base import Acceptance
from oneglance.verify.warped_law import WarpedLaw


@dataclass(frozen=True)
class SeenPass:
    """One pass of one request, after the accept rule and before anything is delivered.

    Attributes:
        context: tokens before the rows of the pass.
        num_asked: K, the most tokens on a path that the drafter was asked for.
        num_made: tokens that it drafted; what was not worth its rows is not in `proposal`.
        proposal: what was verified.
        acceptance: what the rule decided; an answer that ends within the path delivers less of it.
        law: the target's law after each node. It may be read during the call only; reading the
            warped law anywhere but on the accepted path would warp rows that no rule looked at.
    """

    context: int
    num_asked: int
    num_made: int
    proposal: Proposal
    acceptance: Acceptance
    law: WarpedLaw


class PassWatcher(Protocol):
    """Is shown every pass of one request. It can change nothing of the answer."""

    def see(self, seen: SeenPass) -> None:
        """A pass; the time that this call takes is booked nowhere."""

    def note_seconds(self, draft: float, verify: float, accept: float) -> None:
        """This request's share of the time of the pass that was seen last, by phase."""
