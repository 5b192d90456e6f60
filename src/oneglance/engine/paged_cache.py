"""The book of a key-value cache: who holds which slots, and which layers evaluated them.

How keys and values are stored is up to the subclass: numpy arrays (`kv_cache.py`) or the pages of
the native engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.config import EngineConfig
from oneglance.engine.base import PageUse, SequenceId, TreeRows
from oneglance.engine.pages import PageCopy, PageId, PagePool, PageTable
from oneglance.engine.pass_plan import EvaluatedLayers
from oneglance.errors import ParameterError
from oneglance.types import ROOT


@dataclass(frozen=True)
class _Stretch:
    """Committed positions from `start` on that the same layers evaluated."""

    start: int
    layers: EvaluatedLayers


@dataclass
class _Evaluated:
    """Which layers a sequence's rows have keys and values for.

    Attributes:
        stretches: of the committed positions, in order.
        in_flight: the tree in flight; None if there is none.
        in_flight_layers: what evaluated the tree in flight, or the last one.
    """

    stretches: list[_Stretch] = field(default_factory=list)
    in_flight: TreeRows | None = None
    in_flight_layers: EvaluatedLayers | None = None

    def extend(self, start: int) -> None:
        """Notes that positions from `start` on are those of the tree in flight."""
        assert self.in_flight_layers is not None, "no rows are in flight"
        if not self.stretches or self.stretches[-1].layers != self.in_flight_layers:
            self.stretches.append(_Stretch(start, self.in_flight_layers))

    def check_kept(self, tree: TreeRows) -> None:
        """A caller that keeps what is not in flight has a bug, hence assertions."""
        kept = slice(tree.num_kept)
        if tree.num_kept:
            assert self.in_flight is not None, "no rows are in flight"
            for ours, theirs in (
                (self.in_flight.tokens, tree.tokens),
                (self.in_flight.parents, tree.parents),
            ):
                assert np.array_equal(ours[kept], theirs[kept]), "other rows are in flight"


class PagedCache(ABC):
    """Sequences, their pages and their rows in flight.

    Rows in flight lie in the slots behind the committed prefix, in the order of the tree;
    `commit` moves the accepted path to consecutive slots.
    """

    def __init__(self, engine_config: EngineConfig) -> None:
        """Creates an empty cache; memory is taken as sequences need it."""
        self._table = PageTable(engine_config.page_size, PagePool(engine_config.num_pages))
        self._evaluated: dict[SequenceId, _Evaluated] = {}

    def open(self) -> SequenceId:
        """Starts a sequence with an empty prefix."""
        sequence = self._table.open()
        self._evaluated[sequence] = _Evaluated()
        return sequence

    def fork(self, sequence: SequenceId) -> SequenceId:
        """Starts a sequence that shares another's committed prefix, without its rows in flight."""
        copy = self._table.fork(sequence)
        self._evaluated[copy] = _Evaluated(list(self._evaluated[sequence].stretches))
        return copy

    def length(self, sequence: SequenceId) -> int:
        """Number of committed positions."""
        return self._table.length(sequence)

    def pages(self, sequence: SequenceId) -> tuple[PageId, ...]:
        """The pages of a sequence's prefix and rows in flight, in order of position."""
        return self._table.pages(sequence)

    def page_use(self) -> PageUse:
        """How many pages there may be and are in use."""
        pool = self._table.pool
        return PageUse(self._table.page_size, pool.limit, pool.num_used)

    def num_missing_pages(self, num_rows: Mapping[SequenceId, int]) -> int:
        """How many pages too few are free for a pass with so many rows of each sequence."""
        available = self._table.pool.num_available()
        return 0 if available is None else max(0, self._table.num_needed(num_rows) - available)

    def begin_pass(self, trees: Sequence[TreeRows], layers: EvaluatedLayers) -> None:
        """Drops the rows in flight of these sequences, but for kept ones, and makes room for new.

        Args:
            trees: the rows of each sequence.
            layers: which layers the pass evaluates.

        Raises:
            CapacityError: there are too few pages; nothing has changed.
            ParameterError: a sequence is not open, or its prefix was evaluated by other layers
                than this pass reads, or rows are kept that others evaluated; nothing has changed.
        """
        for tree in trees:
            self._check_layers(tree, layers)
            self._evaluated[tree.sequence].check_kept(tree)
        copies = self._table.reserve(
            {tree.sequence: len(tree.tokens) for tree in trees},
            {tree.sequence: tree.num_kept for tree in trees},
        )
        self._grow(self._table.pool.num_created)
        for copy in copies:
            self._copy_page(copy)
        for tree in trees:
            evaluated = self._evaluated[tree.sequence]
            evaluated.in_flight = tree
            evaluated.in_flight_layers = layers

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        """Appends in-flight rows, a path from the first level down, and drops the others."""
        start = self._table.length(sequence)
        evaluated = self._evaluated[sequence]
        tree = evaluated.in_flight
        assert tree is not None or not rows, "no rows are in flight"
        if tree is not None:
            path = [ROOT, *rows]
            assert all(tree.parents[row] == path[i] for i, row in enumerate(rows)), (
                "rows are no path"
            )
        if list(rows) != list(range(len(rows))):
            self._gather(sequence, [start + row for row in rows], start)
        self._table.commit(sequence, rows)
        if rows:
            evaluated.extend(start)
        evaluated.in_flight = None

    def truncate(self, sequence: SequenceId, length: int) -> None:
        """Drops rows in flight and all committed positions from `length` on.

        Raises:
            ParameterError: `length` is negative or beyond the committed length.
        """
        self._table.truncate(sequence, length)
        evaluated = self._evaluated[sequence]
        evaluated.stretches = [each for each in evaluated.stretches if each.start < length]
        evaluated.in_flight = None

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages."""
        self._table.close(sequence)
        del self._evaluated[sequence]

    @abstractmethod
    def _grow(self, num_pages: int) -> None:
        """Makes storage for at least so many pages, keeping what there is."""

    @abstractmethod
    def _copy_page(self, copy: PageCopy) -> None:
        """Copies all slots of a page, in all layers."""

    @abstractmethod
    def _gather(self, sequence: SequenceId, sources: Sequence[int], start: int) -> None:
        """Copies slots to consecutive ones from `start` on, as if all were read first."""

    def _check_layers(self, tree: TreeRows, layers: EvaluatedLayers) -> None:
        sequence = tree.sequence
        self._table.length(sequence)
        evaluated = self._evaluated[sequence]
        others = evaluated.in_flight_layers
        if tree.num_kept and others is not None and others != layers:
            raise ParameterError(
                f"num_kept = {tree.num_kept} cannot be used with {_named(layers)}: these rows of "
                f"sequence {sequence} were evaluated with {_named(others)}; use the same layers, "
                "or evaluate all rows."
            )
        for stretch in evaluated.stretches:
            if not stretch.layers.serve(layers):
                raise ParameterError(
                    f"{_named(layers)} cannot be used for sequence {sequence}: its position "
                    f"{stretch.start} was evaluated with {_named(stretch.layers)}; truncate it to "
                    f"{stretch.start} and evaluate those tokens again."
                )


def _named(layers: EvaluatedLayers) -> str:
    """The parameters of a batch that ask for these layers."""
    skipped = f", skipped_layers = {tuple(sorted(layers.skipped))}" if layers.skipped else ""
    return f"num_layers = {layers.num_layers}{skipped}"
