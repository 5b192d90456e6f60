"""Picks the accept rule by the request and the proposal's shape."""

from __future__ import annotations

from oneglance.errors import UnsupportedError
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.types import Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.block import accept_block
from oneglance.verify.coupled import accept_coupled
from oneglance.verify.greedy import accept_greedy
from oneglance.verify.point_mass import accept_point_mass
from oneglance.verify.tree import accept_tree


def accept(proposal: Proposal, target: TargetLaw, noise: Noise | KeyedNoise) -> Acceptance:
    """Decides which draft tokens stay and which token of the target's own follows.

    Greedy at temperature 0; coupled with a seed; otherwise the point-mass rule for tokens
    without a law, block verification for chains with laws and recursive rejection for trees.

    Raises:
        UnsupportedError: the proposal is over another vocabulary than the target.
        ParameterError: as `warp`, where the target's law is computed from logits.
    """
    _check_vocabulary(proposal, target.vocab_size)
    if target.is_greedy:
        return accept_greedy(proposal, target)
    if isinstance(noise, KeyedNoise):
        return accept_coupled(proposal, target, noise)
    if proposal.draft_probs is None:
        return accept_point_mass(proposal, target, noise)
    if proposal.is_chain:
        return accept_block(proposal, target, noise)
    return accept_tree(proposal, target, noise)


def _check_vocabulary(proposal: Proposal, vocab_size: int) -> None:
    """Refuses laws of another width and tokens beyond the target's vocabulary."""
    for law in proposal.draft_probs or ():
        if law.shape != (vocab_size,):
            raise UnsupportedError(
                f"Drafter {proposal.drafter!r} has a law of shape {law.shape}, but the target's "
                f"vocabulary has {vocab_size} tokens; use a drafter with the target's vocabulary."
            )
    tokens = proposal.tokens.tolist()
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocab_size:
        raise UnsupportedError(
            f"Drafter {proposal.drafter!r} proposed a token id outside the target's vocabulary of "
            f"{vocab_size}; use a drafter with the target's vocabulary."
        )
