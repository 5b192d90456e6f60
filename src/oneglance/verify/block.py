"""Block verification: the tokens of a chain are judged together, and more of them are kept."""

from __future__ import annotations

from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.residual import acceptance_ratio, excess, normalized


def accept_block(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Keeps the longest block whose coin lands (Sun et al., arXiv:2403.10444, algorithm 2).

    With the weights P_0 = 1, P_i = min(1, P_{i-1} p_i(x_i) / q_i(x_i)) and the residual masses
    Z_i = sum over the vocabulary of (P_i p_{i+1} − q_{i+1})+, the block of the first i tokens has
    a coin of h_i = Z_i / (Z_i + 1 − P_i), the whole chain one of P_K, all independent. The
    longest block whose coin lands is kept, the empty one if none does; the next token comes from
    the normalised residual after it, or from the target after the whole chain.

    Coins are tossed from the longest block down to the first that lands: those of shorter blocks
    cannot matter, so they and their residuals are left out.

    Args:
        proposal: a chain with the law that each token was drawn from.
        target: the target's law.
        noise: source of the coins and of the last draw.
    """
    assert proposal.is_chain, "block verification needs a chain"
    assert proposal.draft_probs is not None, "block verification needs the draft's laws"
    weights = block_weights(proposal, target)
    num_kept = len(weights) - 1
    is_kept = noise.coin(weights[num_kept])
    if is_kept:
        remaining = target.probs(num_kept - 1)
    while not is_kept:
        num_kept -= 1
        target_probs = target.probs(num_kept - 1)
        residual = excess(weights[num_kept] * target_probs, proposal.draft_probs[num_kept])
        remaining = normalized(residual, fallback=target_probs)
        chance = block_chance(weights[num_kept], float(residual.sum()))
        is_kept = num_kept == 0 or noise.coin(chance)
    return Acceptance.after(proposal, list(range(num_kept)), noise.draw(remaining))


def block_weights(proposal: Proposal, target: TargetLaw) -> list[float]:
    """The weights P_0 to P_K of a chain's prefixes, each in [0, 1], up to the first that is 0.

    Behind a token that the target forbids its law is not looked at: it may not even exist there.

    The minimum is taken at every step and not only of the final product: a ratio above 1 pays
    for ratios that follow it, never for those before.
    """
    assert proposal.draft_probs is not None, "the weights need the draft's laws"
    weights = [1.0]
    for node, draft_probs in enumerate(proposal.draft_probs):
        token = proposal.tokens[node]
        target_prob = float(target.probs(node - 1)[token])
        weights.append(acceptance_ratio(weights[-1] * target_prob, float(draft_probs[token])))
        if weights[-1] == 0:
            break
    return weights


def block_chance(weight: float, residual_mass: float) -> float:
    """The coin h = Z / (Z + 1 − P) of a block that is not the whole chain; 1 where that is 0/0."""
    total = residual_mass + (1.0 - weight)
    return residual_mass / total if total > 0 else 1.0
