"""Two trees of draft tokens made one: equal paths become one node, so siblings stay distinct."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oneglance.drafters.paths import PathTree
from oneglance.types import ROOT, IntArray, Proposal


@dataclass(frozen=True)
class Merged:
    """A tree that holds the nodes of several trees.

    Attributes:
        proposal: point masses; `makers` tells whose each node is, of equal ones the first tree's.
        places: for each tree, [its number of nodes] where each of its nodes lies in the proposal,
            −1 for a node that did not fit.
        shared_depth: depth of the deepest node that the last tree had in common with the others.
    """

    proposal: Proposal
    places: tuple[IntArray, ...]
    shared_depth: int

    @classmethod
    def only(cls, proposal: Proposal) -> Merged:
        """A single tree."""
        return cls(proposal, (np.arange(len(proposal)),), 0)


def merge(first: Merged, second: Proposal, max_nodes: int) -> Merged:
    """Adds the nodes of a tree to another.

    Args:
        first: what is there, at most `max_nodes` nodes; kept whole.
        second: what is added, in order of index, as long as there is room.
        max_nodes: most nodes of the result.

    Returns:
        The tree of both; its `expected` is left to the caller, who knows how to add them up.
    """
    assert first.proposal.draft_probs is None, "only point masses can be merged"
    assert second.draft_probs is None, "only point masses can be merged"
    tree = PathTree.of(first.proposal, max_nodes)
    depths = second.depths().tolist()
    places: list[int | None] = []
    makers = [first.proposal.maker(node) for node in range(len(first.proposal))]
    shared_depth = 0
    for index, (token, parent) in enumerate(
        zip(second.tokens.tolist(), second.parents.tolist(), strict=True)
    ):
        above = ROOT if parent == ROOT else places[parent]
        if above is None:  # its parent did not fit
            places.append(None)
            continue
        if tree.child(above, token) is not None:
            shared_depth = max(shared_depth, depths[index])
        place = tree.add([token], above)
        if place == len(makers):  # it was not there yet
            makers.append(second.maker(index))
        places.append(place)
    proposal = tree.proposal(f"{first.proposal.drafter}+{second.drafter}")
    proposal = replace(proposal, makers=tuple(makers))
    own = np.array([ROOT if place is None else place for place in places], dtype=np.int64)
    return Merged(proposal, (*first.places, own), shared_depth)
