"""Expected numbers of accepted tokens, computed from laws alone: no coins, no rules."""

from __future__ import annotations

import numpy as np

from oneglance.audit.rules.tables import Prefix, Table
from oneglance.types import Float64Array, Proposal

Shape = range | tuple[int, ...]


def expected_chain(target: Table, draft: Table, length: int, prefix: Prefix = ()) -> float:
    """Token-wise rule: the sum over i of the mass of min(p, q) along the first i tokens."""
    if length == 0:
        return 0.0
    overlap = np.minimum(target(prefix), draft(prefix))
    return sum(
        float(overlap[token]) * (1 + expected_chain(target, draft, length - 1, (*prefix, token)))
        for token in map(int, np.flatnonzero(overlap))
    )


def expected_block(
    target: Table,
    draft: Table,
    length: int,
    prefix: Prefix = (),
    mass: float = 1.0,
    weight: float = 1.0,
) -> float:
    """Block rule: P(at least i tokens are kept | draft) is the weight P_i (arXiv:2403.10444)."""
    if length == 0:
        return 0.0
    total = 0.0
    for token in np.flatnonzero(draft(prefix)):
        draft_prob = float(draft(prefix)[token])
        longer = (*prefix, int(token))
        new_mass = mass * draft_prob
        new_weight = min(1.0, weight * float(target(prefix)[token]) / draft_prob)
        total += new_mass * new_weight
        total += expected_block(target, draft, length - 1, longer, new_mass, new_weight)
    return total


def expected_point_mass(target: Table, proposal: Proposal) -> float:
    """Point masses: each node of the tree is reached with the target's probability of its path."""
    total = 0.0
    for node in range(len(proposal)):
        reached = 1.0
        prefix: Prefix = ()
        for step in proposal.path_to(node):
            token = int(proposal.tokens[step])
            reached *= float(target(prefix)[token])
            prefix = (*prefix, token)
        total += reached
    return total


def expected_tree(
    target: Table, draft: Table, shape: Shape, with_replacement: bool, prefix: Prefix = ()
) -> float:
    """Recursive rejection: a recursion over what remains of target and draft at each node."""
    return _expected_at_node(
        target, draft, tuple(shape), -1, with_replacement, prefix, 0, target(prefix), draft(prefix)
    )


def _expected_at_node(
    target: Table,
    draft: Table,
    shape: tuple[int, ...],
    node: int,
    with_replacement: bool,
    prefix: Prefix,
    rank: int,
    remaining: Float64Array,
    law: Float64Array,
) -> float:
    children = [child for child, parent in enumerate(shape) if parent == node]
    if rank == len(children) or not law.any():
        return 0.0
    total = 0.0
    kept = np.minimum(remaining, law)
    left = np.maximum(remaining - law, 0.0)
    for token in np.flatnonzero(law):
        longer = (*prefix, int(token))
        below = _expected_at_node(
            target,
            draft,
            shape,
            children[rank],
            with_replacement,
            longer,
            0,
            target(longer),
            draft(longer),
        )
        total += float(kept[token]) * (1 + below)
        rejected = float(law[token] - kept[token])
        if rejected > 0:
            next_law = law.copy()
            if not with_replacement:
                next_law[token] = 0.0
                next_law = next_law / next_law.sum() if next_law.any() else next_law
            total += rejected * _expected_at_node(
                target,
                draft,
                shape,
                node,
                with_replacement,
                prefix,
                rank + 1,
                left / left.sum(),
                next_law,
            )
    return total
