"""Recursive rejection sampling on a tree whose tokens were drawn at random."""

from __future__ import annotations

from collections.abc import Iterator

from oneglance.sampling.noise import Noise
from oneglance.types import ROOT, Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.residual import acceptance_ratio, excess, normalized, without


def accept_tree(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Walks down from the root; at each node tests the children in the order of their drawing.

    With replacement: multi-step speculative sampling (SpecInfer, arXiv:2305.09781, algorithm 2).
    Without: recursive rejection sampling (Jeon et al., arXiv:2402.14160). If every child is
    rejected, or there is none, the next token comes from what remains of the target's law.

    Args:
        proposal: a tree with the law that each token was drawn from.
        target: the target's law.
        noise: source of the coins and of the last draw.
    """
    node = ROOT
    path: list[int] = []
    while True:
        child, remaining = _choose_child(proposal, node, target.probs(node), noise)
        if child is None:
            return Acceptance.after(proposal, path, noise.draw(remaining))
        node = child
        path.append(node)


def _choose_child(
    proposal: Proposal, node: int, target_probs: Float64Array, noise: Noise
) -> tuple[int | None, Float64Array]:
    """The child of `node` that is kept, or None, and what remains of the target's law.

    Where earlier siblings have exhausted the draft's law, a further child cannot have been drawn
    from it: the drafter filled up with a token of its own choice, and that is a point mass.
    """
    remaining = target_probs
    for child, draft_probs in _with_laws(proposal, node):
        token = int(proposal.tokens[child])
        target_prob, draft_prob = float(remaining[token]), float(draft_probs[token])
        is_drawn = draft_prob > 0 or bool(draft_probs.any())
        if noise.coin(acceptance_ratio(target_prob, draft_prob) if is_drawn else target_prob):
            return child, remaining
        rejected = excess(remaining, draft_probs) if is_drawn else without(remaining, token)
        remaining = normalized(rejected, fallback=remaining)
    return None, remaining


def _with_laws(proposal: Proposal, node: int) -> Iterator[tuple[int, Float64Array]]:
    """The children of a node, each with the law that it was drawn from given those before it."""
    assert proposal.draft_probs is not None, "the tree rule needs the draft's laws"
    children = proposal.children(node)
    for rank, child in enumerate(children):
        shared = proposal.draft_probs[children[0]]
        assert proposal.draft_probs[child] is shared, "siblings must share one law"
        if rank == 0 or proposal.with_replacement:
            law = shared
        else:
            law = without(law, int(proposal.tokens[children[rank - 1]]))
        yield child, law
