"""Paths of draft tokens merged into one tree: equal beginnings share their nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from oneglance.types import ROOT, Proposal


class PathTree:
    """A proposal in the making, at most `limit` nodes large.

    What a target says after a node depends on the tokens on the way to it and on nothing else, so
    that paths which begin alike need their beginning once. Siblings are distinct by construction.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Starts with no nodes; `limit` of None is no limit."""
        self._limit = limit
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    @classmethod
    def of(cls, proposal: Proposal, limit: int | None = None) -> PathTree:
        """A tree with the nodes of a proposal, each in its place; siblings must be distinct."""
        tree = cls(limit)
        tree._tokens = proposal.tokens.tolist()
        tree._parents = proposal.parents.tolist()
        edges = zip(tree._parents, tree._tokens, strict=True)
        tree._children = {edge: node for node, edge in enumerate(edges)}
        return tree

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def has_room(self) -> bool:
        """Whether another node may be added."""
        return self._limit is None or len(self._tokens) < self._limit

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` (or of `ROOT`) that carries `token`; None: there is none."""
        return self._children.get((node, token))

    def add(self, path: Sequence[int], start: int = ROOT) -> int | None:
        """Adds a path below `start`, as much of it as there is room for.

        Returns:
            The node at its end (`start` for an empty path); None where it did not fit.
        """
        node = start
        for token in path:
            known = self._children.get((node, token))
            if known is None:
                if not self.has_room:
                    return None
                known = len(self._tokens)
                self._children[node, token] = known
                self._tokens.append(token)
                self._parents.append(node)
            node = known
        return node

    def num_matched(self, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the first on, lie on one path of the tree."""
        node = ROOT
        for count, token in enumerate(tokens):
            known = self._children.get((node, token))
            if known is None:
                return count
            node = known
        return len(tokens)

    def proposal(self, drafter: str, expected: float | None = None) -> Proposal:
        """The tree as point masses."""
        return Proposal(
            tokens=np.array(self._tokens, dtype=np.int64),
            parents=np.array(self._parents, dtype=np.int64),
            drafter=drafter,
            expected=expected,
        )


def until_end(path: Sequence[int], eos_ids: Collection[int]) -> Sequence[int]:
    """A path up to its first end of text, included: nothing that follows can be delivered."""
    for count, token in enumerate(path, start=1):
        if token in eos_ids:
            return path[:count]
    return path
