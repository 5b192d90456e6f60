"""Draft tokens without a law: argmax, lookup, pruned trees."""

from __future__ import annotations

from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.descent import descend


def accept_point_mass(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Draws the target's token and keeps the child that equals it, on chains and trees.

    The same law as testing the children one after another as point masses (keep x with its
    probability in what remains of the target's law, otherwise remove it and renormalise), with
    one draw for each node. Exact for any draft that does not depend on this pass's randomness.
    """
    return descend(proposal, lambda node, _depth: target.draw(node, noise))
