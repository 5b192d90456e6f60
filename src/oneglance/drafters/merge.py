"""Two trees of draft tokens made one: equal paths become one node, so siblings stay distinct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneglance.types import ROOT, IntArray, Proposal


@dataclass(frozen=True)
class Merged:
    """A tree that holds the nodes of several trees.

    Attributes:
        proposal: point masses.
        places: for each tree, [its number of nodes] where each of its nodes lies in the proposal,
            −1 for a node that did not fit.
        shared_depth: depth of the deepest node that the last tree had in common with the others.
    """

    proposal: Proposal
    places: tuple[IntArray, ...]
    shared_depth: int


def merge(first: Merged | Proposal, second: Proposal, max_nodes: int) -> Merged:
    """Adds the nodes of a tree to another.

    Args:
        first: what is there, at most `max_nodes` nodes; kept whole.
        second: what is added, in order of index, as long as there is room.
        max_nodes: most nodes of the result.

    Returns:
        The tree of both; its `expected` is left to the caller, who knows how to add them up.
    """
    if isinstance(first, Proposal):
        first = Merged(first, (np.arange(len(first)),), 0)
    base = first.proposal
    assert base.draft_probs is None, "only point masses can be merged"
    assert second.draft_probs is None, "only point masses can be merged"
    tokens, parents = base.tokens.tolist(), base.parents.tolist()
    nodes = {edge: node for node, edge in enumerate(zip(parents, tokens, strict=True))}
    depths = second.depths().tolist()
    places: list[int] = []
    shared_depth = 0
    for index, (token, parent) in enumerate(
        zip(second.tokens.tolist(), second.parents.tolist(), strict=True)
    ):
        place = ROOT if parent == ROOT else places[parent]
        if parent != ROOT and place == ROOT:  # its parent did not fit
            places.append(ROOT)
        elif (place, token) in nodes:
            places.append(nodes[place, token])
            shared_depth = max(shared_depth, depths[index])
        elif len(tokens) < max_nodes:
            nodes[place, token] = len(tokens)
            places.append(len(tokens))
            tokens.append(token)
            parents.append(place)
        else:
            places.append(ROOT)
    proposal = Proposal(
        tokens=np.asarray(tokens, dtype=np.int64),
        parents=np.asarray(parents, dtype=np.int64),
        drafter=f"{base.drafter}+{second.drafter}",
    )
    return Merged(proposal, (*first.places, np.asarray(places, dtype=np.int64)), shared_depth)


def num_matched(proposal: Proposal, tokens: Sequence[int]) -> int:
    """How many of these tokens, from the first on, lie on a path of the proposal."""
    nodes = {
        edge: node
        for node, edge in enumerate(
            zip(proposal.parents.tolist(), proposal.tokens.tolist(), strict=True)
        )
    }
    node = ROOT
    for count, token in enumerate(tokens):
        child = nodes.get((node, token))
        if child is None:
            return count
        node = child
    return len(tokens)
