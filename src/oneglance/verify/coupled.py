"""With a seed: a draft token is kept where it is the target's own Gumbel-max sample."""

from __future__ import annotations

from oneglance.sampling.noise import KeyedNoise
from oneglance.types import Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.descent import descend


def accept_coupled(proposal: Proposal, target: TargetLaw, noise: KeyedNoise) -> Acceptance:
    """Drafter-invariant rule (Daliri, Musco, Suresh, arXiv:2408.07978), on chains and trees.

    The token at each position is the sample that plain decoding with this seed would emit there
    (contract C3). The draft may depend on the noise in any way and cannot change the output.
    """
    return descend(proposal, lambda node, depth: target.sample(node, depth, noise))
