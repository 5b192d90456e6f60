"""Prefixes that stay in the cache, so that what begins alike need not be evaluated again.

A chat turn begins with the whole conversation before it, and many requests with the same system
prompt. By contract C2 a key or value is the same bits whether it was kept or computed again, so
keeping changes nothing but time.

What is kept is a radix tree over tokens. Its leaves hold sequences of the engine, whose pages are
shared and counted; what lies between root and leaf is a beginning of the leaf's sequence. The leaf
that was used longest ago goes first, and what it hangs off may stay: a system prompt outlives the
conversations that began with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oneglance.engine.base import Engine, SequenceId


@dataclass(eq=False)
class _Node:
    """Tokens that follow those of the parent.

    Attributes:
        edge: the tokens; of a root none.
        parent: None: it is a root.
        end: tokens from the root to the end of the edge.
        sequence: of the engine, with the tokens from the root; leaves have one, others none.
        children: by the first token of their edges.
        used: when it was last used, in the store's own time.
    """

    edge: tuple[int, ...] = ()
    parent: _Node | None = None
    end: int = 0
    sequence: SequenceId | None = None
    children: dict[int, _Node] = field(default_factory=dict)
    used: int = 0

    def leaf(self) -> _Node:
        """A leaf at or below this node."""
        node = self
        while node.children:
            node = next(iter(node.children.values()))
        return node

    def leaves(self) -> Iterator[_Node]:
        """Every leaf below this node, or itself."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            waiting.extend(node.children.values())
            if not node.children:
                yield node

    def split(self, length: int) -> _Node:
        """Ends the edge after `length` tokens; the rest becomes a child. Returns the upper part."""
        assert self.parent is not None, "a root has no edge"
        assert 0 < length < len(self.edge), "nothing is split off"
        upper = _Node(self.edge[:length], self.parent, self.end - len(self.edge) + length)
        upper.used = self.used
        self.parent.children[upper.edge[0]] = upper
        self.edge, self.parent = self.edge[length:], upper
        upper.children[self.edge[0]] = self
        return upper


class PrefixStore:
    """Sequences of an engine with the tokens that their cache holds.

    Requests of one group never begin with what another group left here.
    """

    def __init__(self, engine: Engine, capacity: int | None, max_tokens: int | None = None) -> None:
        """Keeps nothing yet.

        Args:
            engine: whose sequences are kept.
            capacity: most leaves of the tree, such as ended answers; 0 keeps nothing, None: as
                many as fit.
            max_tokens: most tokens, beginnings that are shared counted once; None: no limit.
        """
        self._engine = engine
        self._capacity = capacity
        self._max_tokens = max_tokens
        self._roots: dict[str, _Node] = {}
        self._num_leaves = 0
        self._num_tokens = 0
        self._time = 0

    @property
    def num_tokens(self) -> int:
        """Tokens that are kept, beginnings that are shared counted once."""
        return self._num_tokens

    def open(self, prompt: Sequence[int], group: str = "") -> SequenceId:
        """Starts a sequence that already holds the longest kept beginning of `prompt`.

        The last token of the prompt is left out, since the first pass evaluates it.
        """
        node = self._descend(self._roots.get(group, _Node()), prompt[:-1])
        if node.parent is None:
            return self._engine.open()
        held = node.leaf().sequence
        assert held is not None, "a leaf has a sequence"
        sequence = self._engine.fork(held)
        self._engine.truncate(sequence, node.end)
        return sequence

    def keep(self, sequence: SequenceId, tokens: Sequence[int], group: str = "") -> None:
        """Takes over a sequence, such as one whose answer has ended.

        Args:
            sequence: an open sequence; the store closes it in time.
            tokens: prompt and answer. Rows beyond them (drafts after the end of the answer) are
                dropped.
            group: who may begin with it.
        """
        length = min(self._engine.length(sequence), len(tokens))
        self._engine.truncate(sequence, length)
        node = self._descend(self._roots.setdefault(group, _Node()), tokens[:length])
        if node.end == length:  # all of it is kept already
            self._engine.close(sequence)
        else:
            self._add(node, tuple(tokens[node.end : length]), sequence)
        while self._is_too_large():
            self.evict()

    def evict(self) -> bool:
        """Lets go of the leaf that was used longest ago.

        Returns:
            Whether there was any.
        """
        leaves = (leaf for root in self._roots.values() for leaf in root.leaves() if leaf.parent)
        leaf = min(leaves, key=lambda node: node.used, default=None)
        if leaf is None:
            return False
        parent, sequence = leaf.parent, leaf.sequence
        assert parent is not None, "a root is no leaf"
        assert sequence is not None, "a leaf has a sequence"
        del parent.children[leaf.edge[0]]
        self._num_tokens -= len(leaf.edge)
        if parent.children or parent.parent is None:
            self._engine.close(sequence)
            self._num_leaves -= 1
            self._roots = {group: root for group, root in self._roots.items() if root.children}
        else:  # it is a leaf now
            self._engine.truncate(sequence, parent.end)
            parent.sequence = sequence
        return True

    def clear(self) -> None:
        """Lets go of everything."""
        for root in self._roots.values():
            for leaf in root.leaves():
                if leaf.sequence is not None:
                    self._engine.close(leaf.sequence)
        self._roots.clear()
        self._num_leaves = self._num_tokens = 0

    def _descend(self, node: _Node, tokens: Sequence[int]) -> _Node:
        """The longest kept beginning of some tokens below a root, split off where need be."""
        self._time += 1
        node.used = self._time
        while node.end < len(tokens):
            child = node.children.get(tokens[node.end])
            if child is None:
                break
            shared = common_length(child.edge, tokens[node.end :])
            node = child if shared == len(child.edge) else child.split(shared)
            node.used = self._time
        return node

    def _add(self, node: _Node, edge: tuple[int, ...], sequence: SequenceId) -> None:
        """Hangs a new leaf off a node; one that was a leaf need not be held by itself any more."""
        leaf = _Node(edge, node, node.end + len(edge), sequence, used=self._time)
        if node.sequence is not None:
            self._engine.close(node.sequence)
            node.sequence = None
        else:
            self._num_leaves += 1
        node.children[edge[0]] = leaf
        self._num_tokens += len(edge)

    def _is_too_large(self) -> bool:
        is_many = self._capacity is not None and self._num_leaves > self._capacity
        return is_many or (self._max_tokens is not None and self._num_tokens > self._max_tokens)


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
