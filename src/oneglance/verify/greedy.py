"""Temperature 0: a draft token is kept where it is the target's argmax."""

from __future__ import annotations

from oneglance.types import Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.descent import descend


def accept_greedy(proposal: Proposal, target: TargetLaw) -> Acceptance:
    """Descends to the child that is the argmax. Involves no randomness, hence takes no noise."""
    return descend(proposal, lambda node, _depth: target.argmax(node))
