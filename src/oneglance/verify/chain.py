"""Token-wise speculative sampling of a chain: the plain form of block verification."""

from __future__ import annotations

from oneglance.sampling.noise import Noise
from oneglance.types import ROOT, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.residual import acceptance_ratio, excess, normalized


def accept_chain(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Keeps each token with probability min(1, p/q), in turn, up to the first rejection.

    Leviathan et al., arXiv:2211.17192, algorithm 1; Chen et al., arXiv:2302.01318. After a
    rejection the next token comes from the normalised (p − q)+, after none from p. With p = 0 a
    token is never kept.

    Args:
        proposal: a chain with the law that each token was drawn from.
        target: the target's law.
        noise: source of the coins and of the last draw.
    """
    assert proposal.is_chain, "the token-wise rule needs a chain"
    assert proposal.draft_probs is not None, "the token-wise rule needs the draft's laws"
    path: list[int] = []
    for node, draft_probs in enumerate(proposal.draft_probs):
        token = proposal.tokens[node]
        target_probs = target.probs(node - 1)
        if noise.coin(acceptance_ratio(float(target_probs[token]), float(draft_probs[token]))):
            path.append(node)
            continue
        remaining = normalized(excess(target_probs, draft_probs), fallback=target_probs)
        return Acceptance.after(proposal, path, noise.draw(remaining))
    last = path[-1] if path else ROOT
    return Acceptance.after(proposal, path, target.draw(last, noise))
