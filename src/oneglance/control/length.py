"""How many tokens to draft next. A policy sees only what was drafted before, so exactness holds."""

from __future__ import annotations

from abc import ABC, abstractmethod

from oneglance.errors import ParameterError

DraftLengthSpec = int | str
"""A number of draft tokens per pass, or "auto"."""


class DraftLength(ABC):
    """Chooses K for one request, pass by pass."""

    @abstractmethod
    def next(self) -> int:
        """Most tokens to draft for the next pass."""

    @abstractmethod
    def update(self, num_drafted: int, num_accepted: int) -> None:
        """Learns how the last pass went."""


class FixedLength(DraftLength):
    """The same K in every pass."""

    def __init__(self, num_draft_tokens: int) -> None:
        """`num_draft_tokens` is K, at least 1."""
        self._num_draft_tokens = num_draft_tokens

    def next(self) -> int:
        """Returns K."""
        return self._num_draft_tokens

    def update(self, num_drafted: int, num_accepted: int) -> None:
        """Nothing to learn."""


class AdaptiveLength(DraftLength):
    """Two more after a draft that was accepted whole, one less after any other.

    The heuristic schedule of assisted generation in Transformers, bounded on both
    sides. A pass with an empty draft changes nothing.
    """

    def __init__(self, start: int = 5, lowest: int = 1, highest: int = 16) -> None:
        """`start` is the first K; it stays between `lowest` and `highest`."""
        self._length = start
        self._lowest = lowest
        self._highest = highest

    def next(self) -> int:
        """Returns the present K."""
        return self._length

    def update(self, num_drafted: int, num_accepted: int) -> None:
        """Moves K by the outcome of one pass."""
        if num_drafted == 0:
            return
        change = 2 if num_accepted == num_drafted else -1
        self._length = min(max(self._length + change, self._lowest), self._highest)


def make_draft_length(spec: DraftLengthSpec) -> DraftLength:
    """A fresh policy for one request.

    Raises:
        ParameterError: `spec` is neither "auto" nor a whole number of at least 1.
    """
    if spec == "auto":
        return AdaptiveLength()
    if isinstance(spec, int) and not isinstance(spec, bool) and spec >= 1:
        return FixedLength(spec)
    raise ParameterError(
        f"k = {spec!r} cannot be used; it must be auto or a whole number of at least 1. "
        "To switch speculation off, use the drafter none."
    )


def check_tree_nodes(tree_nodes: int | None) -> None:
    """Refuses what is no number of tree nodes.

    Raises:
        ParameterError: it is neither None nor a whole number of at least 1.
    """
    is_number = isinstance(tree_nodes, int) and not isinstance(tree_nodes, bool)
    if tree_nodes is not None and not (is_number and tree_nodes >= 1):
        raise ParameterError(
            f"tree_nodes = {tree_nodes!r} cannot be used; it must be a whole number of at least 1, "
            "or None for chains."
        )
