"""Trees of draft tokens that grow level by level, and which of their nodes to grow on.

A tree of point masses (greedy, or with a seed) may have any shape: it is grown best first and
pruned, so that its nodes are those which the draft holds most likely (EAGLE-2, Li et al.,
arXiv:2406.16858). A tree of tokens that were drawn at random must keep every token it drew and may
not choose among them: pruned by its tokens' own probabilities it would be biased. Its shape is
fixed beforehand, the best one for a usual draft model (Sequoia, Chen et al., arXiv:2402.12374). It
is worth that restriction: siblings drawn without replacement are accepted more often than as many
best tokens verified as point masses.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from oneglance.drafters.choice import Choice
from oneglance.types import ROOT, Float64Array, Proposal

FIRST_ACCEPTED = 0.7
"""How often a shape expects the first drawn child of an accepted node to be accepted; of what is
left, each further one takes half."""


@dataclass
class DraftTree:
    """Draft tokens so far; a node is an index, parents come before children.

    Attributes:
        tokens: ids.
        parents: nodes, `ROOT` for the first level.
        laws: what each token was drawn from; None for a point mass.
        reaches: how likely each node is to be accepted, by the draft's own confidence in it and
            its ancestors. Never more than the parent's.
        depths: 1 for the first level.
        ranks: which child of its parent a node is, from 0.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    laws: list[Float64Array | None] = field(default_factory=list)
    reaches: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)

    def add(self, parent: int, choices: Sequence[Choice]) -> list[int]:
        """Hangs children off a node, in order of drawing; returns them."""
        first = len(self.tokens)
        reach, depth = (1.0, 0) if parent == ROOT else (self.reaches[parent], self.depths[parent])
        for rank, choice in enumerate(choices):
            self.tokens.append(choice.token)
            self.parents.append(parent)
            self.laws.append(choice.law)
            self.reaches.append(reach * choice.confidence)
            self.depths.append(depth + 1)
            self.ranks.append(rank)
        return list(range(first, len(self.tokens)))

    def path(self, node: int) -> list[int]:
        """The tokens from the first level down to a node; none for `ROOT`."""
        tokens: list[int] = []
        while node != ROOT:
            tokens.append(self.tokens[node])
            node = self.parents[node]
        return tokens[::-1]

    def proposal(self, nodes: Sequence[int], drafter: str) -> Proposal:
        """Proposes some nodes, ascending, each with all its ancestors."""
        index_of = {ROOT: ROOT} | {node: index for index, node in enumerate(nodes)}
        laws = [law for law in (self.laws[node] for node in nodes) if law is not None]
        assert len(laws) in (0, len(nodes)), "some tokens have a law and others none"
        reaches = tuple(self.reaches[node] for node in nodes)
        return Proposal(
            tokens=np.array([self.tokens[node] for node in nodes], dtype=np.int64),
            parents=np.array([index_of[self.parents[node]] for node in nodes], dtype=np.int64),
            draft_probs=tuple(laws) if laws else None,
            drafter=drafter,
            expected=sum(reaches),
            reaches=reaches,
        )


class Growth(ABC):
    """Decides how one tree grows."""

    @abstractmethod
    def num_children(self, node: int) -> int:
        """How many children to give a node that is grown on, `ROOT` included; at least 1."""

    @abstractmethod
    def choose(self, tree: DraftTree, level: Sequence[int]) -> list[int]:
        """Which nodes of the deepest level to grow on.

        Args:
            tree: as grown so far.
            level: those of its newest nodes that may have children.
        """

    @abstractmethod
    def proposed(self, tree: DraftTree) -> list[int]:
        """Which nodes of the complete tree to propose, ascending."""

    @abstractmethod
    def most_grown(self, max_depth: int) -> int:
        """How many nodes may be grown on at most, each of which takes a row."""


class FixedShape(Growth):
    """A shape that was there before any token; each node of it has children in order of rank."""

    def __init__(self, shape: Sequence[Sequence[int]]) -> None:
        """Takes for each place of the shape, the root first, the places of its children."""
        self._shape = shape
        self._places = {ROOT: 0}

    def num_children(self, node: int) -> int:
        """As many as the shape has there."""
        return len(self._shape[self._places[node]])

    def choose(self, tree: DraftTree, level: Sequence[int]) -> list[int]:
        """Those that have children in the shape."""
        for node in level:
            place = self._places[tree.parents[node]]
            self._places[node] = self._shape[place][tree.ranks[node]]
        return [node for node in level if self.num_children(node) > 0]

    def proposed(self, tree: DraftTree) -> list[int]:
        """All: what was drawn is kept."""
        return list(range(len(tree.tokens)))

    def most_grown(self, max_depth: int) -> int:  # noqa: ARG002
        """All that have children."""
        return sum(1 for children in self._shape[1:] if children)


class BestFirst(Growth):
    """The nodes with the greatest reach, for trees whose tokens are point masses.

    Each level grows on a few nodes only, those with the greatest reach, and only as long as they
    would be among the nodes that are proposed.
    """

    def __init__(self, num_nodes: int) -> None:
        """Proposes up to `num_nodes` nodes, at least 1."""
        self._num_nodes = num_nodes
        self._width = math.isqrt(num_nodes - 1) + 1  # the root of it, rounded up

    def num_children(self, node: int) -> int:  # noqa: ARG002
        """The same for every node: about the root of the number of nodes."""
        return self._width

    def choose(self, tree: DraftTree, level: Sequence[int]) -> list[int]:
        """The best ones of the level, if they are among the best of all."""
        best = set(self.proposed(tree))
        alive = [node for node in level if node in best]
        return sorted(_by_reach(tree, alive)[: self._width])

    def proposed(self, tree: DraftTree) -> list[int]:
        """The best ones; a node never has more than its parent, and comes behind it if equal."""
        return sorted(_by_reach(tree, range(len(tree.tokens)))[: self._num_nodes])

    def most_grown(self, max_depth: int) -> int:
        """So many of each level but the last."""
        return self._width * (max_depth - 1)


class ChainWithBranches(Growth):
    """The likeliest chain, and beside it the next likely tokens, on which nothing grows.

    Which tokens come next in likelihood is known with the likeliest: such a branch costs a row of
    the target and no time to draft. For trees whose tokens are point masses.
    """

    WIDTH = 3

    def __init__(self, num_nodes: int) -> None:
        """Proposes up to `num_nodes` nodes, those with the greatest reach; at least 1."""
        self._num_nodes = num_nodes

    def num_children(self, node: int) -> int:  # noqa: ARG002
        """The same at every place."""
        return self.WIDTH

    def choose(self, tree: DraftTree, level: Sequence[int]) -> list[int]:
        """The best one."""
        return [node for node in level if tree.ranks[node] == 0]

    def proposed(self, tree: DraftTree) -> list[int]:
        """The best ones; a node never has more than its parent, and comes behind it if equal."""
        return sorted(_by_reach(tree, range(len(tree.tokens)))[: self._num_nodes])

    def most_grown(self, max_depth: int) -> int:
        """One of each level but the last."""
        return max_depth - 1


def _by_reach(tree: DraftTree, nodes: Sequence[int]) -> list[int]:
    return sorted(nodes, key=lambda node: (-tree.reaches[node], node))


def chain_shape(num_nodes: int) -> list[list[int]]:
    """A chain, for `FixedShape`."""
    return [*([place] for place in range(1, num_nodes + 1)), []]


@lru_cache(maxsize=256)
def best_shape(num_nodes: int, max_depth: int) -> list[list[int]]:
    """The shape with the most accepted tokens to expect, for `FixedShape`.

    The chance of a place is the product of those on its path, where the child of rank r is the
    accepted one with the chance that `FIRST_ACCEPTED` gives it, whatever the node. The places with
    the greatest chances make the best tree.

    Args:
        num_nodes: places beside the root, at least 1.
        max_depth: longest path, at least 1.
    """
    shape: list[list[int]] = [[]]
    # Chance (negated), place of the parent, rank, depth, chance of the parent.
    candidates = [(-FIRST_ACCEPTED, 0, 0, 1, 1.0)]
    for place in range(1, num_nodes + 1):
        chance, parent, rank, depth, of_parent = heapq.heappop(candidates)
        shape.append([])
        shape[parent].append(place)
        left = 1.0 - FIRST_ACCEPTED
        sibling = -of_parent * left / 2 ** (rank + 1)
        heapq.heappush(candidates, (sibling, parent, rank + 1, depth, of_parent))
        if depth < max_depth:
            heapq.heappush(candidates, (chance * FIRST_ACCEPTED, place, 0, depth + 1, -chance))
    return shape
