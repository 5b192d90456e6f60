"""From guesses for the next few places, made independently of each other, to a draft.

Every guess for a place can follow every path before it (the Cartesian product of Medusa's heads,
Cai et al., arXiv:2401.10774, §2.2), far more paths than can be verified. A path is worth the
product of the chances of its tokens, and the tree that holds most accepted tokens on average has
the nodes that are worth most: it grows by the best node that is left, again and again. Where the
tokens are drawn at random the shape must be there before them, see `draft_tree.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from oneglance.drafters.choice import Choice
from oneglance.drafters.draft_tree import DraftTree, FixedShape
from oneglance.drafters.medusa_calibration import Calibration
from oneglance.types import ROOT

Guess = Callable[[Sequence[int], int], list[Choice]]
"""Guesses what follows a path of draft tokens: so many tokens, best first."""

MAX_WIDTH = 8
"""Most children of a node in a shape that is fixed beforehand."""


@dataclass(frozen=True)
class GrowthLimits:
    """How far a draft grows.

    Attributes:
        num_nodes: most tokens, at least 1.
        max_depth: most tokens on a path, at least 1.
        width: most children of a node; 1 makes a chain.
        min_reach: nothing hangs off a node that is less likely than this to be accepted, and where
            tokens may be left out such a node is.
    """

    num_nodes: int
    max_depth: int
    width: int
    min_reach: float = 0.0


@dataclass
class GuessedTree:
    """A draft that grows out of guesses.

    Attributes:
        guess: makes them.
        calibration: weighs them.
        eos_ids: tokens that nothing follows.
        tree: every guess so far, with its calibrated chance.
        families: for each node that was grown on, its first child and what the heads had said.
    """

    guess: Guess
    calibration: Calibration
    eos_ids: Collection[int] = ()
    tree: DraftTree = field(default_factory=DraftTree)
    families: dict[int, tuple[int, list[Choice]]] = field(default_factory=dict)

    def grow_best(self, limits: GrowthLimits) -> list[int]:
        """Grows by the node with the greatest reach; for tokens that are point masses.

        Returns:
            The nodes to propose, ascending.
        """
        chosen: list[int] = []
        waiting: list[tuple[float, int]] = []
        node = ROOT
        while len(chosen) < limits.num_nodes:
            if self._has_children(node, limits):
                for child in self._grow(node, limits.width):
                    heapq.heappush(waiting, (-self.tree.reaches[child], child))
            if not waiting or -waiting[0][0] < limits.min_reach:
                break
            node = heapq.heappop(waiting)[1]
            chosen.append(node)
        return sorted(chosen)

    def grow_shape(self, shape: Sequence[Sequence[int]], limits: GrowthLimits) -> list[int]:
        """Grows a given shape; for tokens that are drawn, all of which must be kept.

        Returns:
            The nodes to propose, ascending: all there are.
        """
        growth = FixedShape(shape)
        frontier = [ROOT]
        while frontier:
            level: list[int] = []
            for node in frontier:
                level += self._grow(node, growth.num_children(node))
            alive = [node for node in level if self._has_children(node, limits)]
            frontier = growth.choose(self.tree, alive)
        return growth.proposed(self.tree)

    def learn(self, tokens: Sequence[int]) -> None:
        """Hears which tokens came, as far as the guesses for their places are there."""
        node = ROOT
        for depth, token in enumerate(tokens):
            if node not in self.families:
                return
            first, choices = self.families[node]
            guessed = [choice.token for choice in choices]
            right = guessed.index(token) if token in guessed else None
            self.calibration.note(depth, [choice.confidence for choice in choices], right)
            if right is None:
                return
            node = first + right

    def _has_children(self, node: int, limits: GrowthLimits) -> bool:
        if node == ROOT:
            return True
        is_short = self.tree.depths[node] < limits.max_depth
        is_likely = self.tree.reaches[node] >= limits.min_reach
        return is_short and is_likely and self.tree.tokens[node] not in self.eos_ids

    def _grow(self, node: int, count: int) -> list[int]:
        path = self.tree.path(node)
        choices = self.guess(path, count)
        self.families[node] = len(self.tree.tokens), choices
        weighed = [
            replace(choice, confidence=self.calibration.chance(len(path), rank, choice.confidence))
            for rank, choice in enumerate(choices)
        ]
        return self.tree.add(node, weighed)


def shape_for(calibration: Calibration, limits: GrowthLimits) -> list[list[int]]:
    """The shape with the most accepted tokens to expect, for tokens that are yet to be drawn.

    The first child of a node is accepted as often as the best guess at its depth was so far; of
    what is left each further one takes half. It grows as a tree of point masses does, on ranks.

    Args:
        calibration: what is known of the heads.
        limits: of the draft.

    Returns:
        For each place, the root first, the places of its children, as `FixedShape` takes them.
    """

    def ranks(path: Sequence[int], count: int) -> list[Choice]:
        rate = min(1.0, calibration.rate(len(path)))
        chances = [rate, *((1 - rate) / 2**rank for rank in range(1, count))]
        # A further child is tried where the first was refused: never more likely than that.
        return [Choice(rank, confidence=min(rate, chance)) for rank, chance in enumerate(chances)]

    plan = GuessedTree(ranks, Calibration.fresh(len(calibration.counts)))
    width = min(limits.width, MAX_WIDTH)
    nodes = plan.grow_best(replace(limits, width=width, min_reach=0.0))
    places = {ROOT: 0} | {node: place for place, node in enumerate(nodes, start=1)}
    shape: list[list[int]] = [[] for _ in places]
    for node in nodes:
        shape[places[plan.tree.parents[node]]].append(places[node])
    return shape
