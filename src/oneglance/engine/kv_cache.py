"""The key-value cache of a float32 engine: pages of keys and values, shared between sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.base import SequenceId, TreeRows
from oneglance.engine.pages import PagePool, PageTable
from oneglance.errors import ParameterError
from oneglance.types import Float32Array, IntArray


@dataclass
class _Evaluated:
    """Which layers a sequence's rows have keys and values for.

    Attributes:
        num_layers: for each committed position, how many layers evaluated it.
        in_flight_parents: [N] of the tree in flight; None if there is none.
        in_flight_num_layers: how many layers evaluated the tree in flight.
    """

    num_layers: list[int] = field(default_factory=list)
    in_flight_parents: IntArray | None = None
    in_flight_num_layers: int = 0


class KVCache:
    """Keys and values of every layer, [pages, kv_heads, page_size, head_dim] float32 each.

    Rows in flight lie in the slots behind the committed prefix, in the order of the tree;
    `commit` gathers the accepted path to consecutive slots.
    """

    def __init__(self, config: ModelConfig, engine_config: EngineConfig) -> None:
        """Creates an empty cache; memory is taken as sequences need it."""
        self._table = PageTable(engine_config.page_size, PagePool(engine_config.num_pages))
        self._evaluated: dict[SequenceId, _Evaluated] = {}
        shape = (0, config.num_kv_heads, engine_config.page_size, config.head_dim)
        self._keys = [np.empty(shape, dtype=np.float32) for _ in range(config.num_layers)]
        self._values = [np.empty(shape, dtype=np.float32) for _ in range(config.num_layers)]

    def open(self) -> SequenceId:
        """Starts a sequence with an empty prefix."""
        sequence = self._table.open()
        self._evaluated[sequence] = _Evaluated()
        return sequence

    def fork(self, sequence: SequenceId) -> SequenceId:
        """Starts a sequence that shares another's committed prefix, without its rows in flight."""
        copy = self._table.fork(sequence)
        self._evaluated[copy] = _Evaluated(list(self._evaluated[sequence].num_layers))
        return copy

    def length(self, sequence: SequenceId) -> int:
        """Number of committed positions."""
        return self._table.length(sequence)

    def begin_pass(self, trees: Sequence[TreeRows], num_layers: int) -> None:
        """Drops the rows in flight of these sequences and makes room for new ones.

        Args:
            trees: the rows of each sequence.
            num_layers: how many layers the pass evaluates.

        Raises:
            CapacityError: there are too few pages; nothing has changed.
            ParameterError: a sequence is not open, or its prefix was evaluated by fewer layers
                than this pass reads; nothing has changed.
        """
        for tree in trees:
            self._check_layers(tree.sequence, num_layers)
        copies = self._table.reserve({tree.sequence: len(tree.tokens) for tree in trees})
        self._grow()
        for copy in copies:
            for storage in (*self._keys, *self._values):
                storage[copy.target] = storage[copy.source]
        for tree in trees:
            evaluated = self._evaluated[tree.sequence]
            evaluated.in_flight_parents = tree.parents
            evaluated.in_flight_num_layers = num_layers

    def write(
        self, layer: int, sequence: SequenceId, keys: Float32Array, values: Float32Array
    ) -> None:
        """Stores the rows in flight of one layer; keys and values are [N, kv_heads, head_dim]."""
        start = self._table.length(sequence)
        pages, offsets = self._table.slots(sequence, start, start + len(keys))
        self._keys[layer][pages, :, offsets] = keys
        self._values[layer][pages, :, offsets] = values

    def read_prefix(
        self, layer: int, sequence: SequenceId, keys: Float32Array, values: Float32Array
    ) -> None:
        """Copies the committed prefix to the front of two buffers.

        Args:
            layer: whose keys and values.
            sequence: whose prefix.
            keys: [kv_heads, at least the committed length, head_dim], receives the keys.
            values: the same for the values.
        """
        length, page_size = self._table.length(sequence), self._table.page_size
        pages = self._table.pages(sequence)
        for index, start in enumerate(range(0, length, page_size)):
            stop = min(start + page_size, length)
            keys[:, start:stop] = self._keys[layer][pages[index], :, : stop - start]
            values[:, start:stop] = self._values[layer][pages[index], :, : stop - start]

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        """Appends in-flight rows, a path from the first level down, and drops the others."""
        self._table.length(sequence)
        evaluated = self._evaluated[sequence]
        parents = evaluated.in_flight_parents
        assert parents is not None or not rows, "no rows are in flight"
        if parents is not None:
            path = [-1, *rows]
            assert all(parents[row] == path[i] for i, row in enumerate(rows)), "rows are no path"
        start = self._table.length(sequence)
        if list(rows) != list(range(len(rows))):
            self._gather(sequence, [start + row for row in rows], start)
        self._table.commit(sequence, rows)
        evaluated.num_layers += [evaluated.in_flight_num_layers] * len(rows)
        evaluated.in_flight_parents = None

    def truncate(self, sequence: SequenceId, length: int) -> None:
        """Drops rows in flight and all committed positions from `length` on.

        Raises:
            ParameterError: `length` is negative or beyond the committed length.
        """
        self._table.truncate(sequence, length)
        evaluated = self._evaluated[sequence]
        del evaluated.num_layers[length:]
        evaluated.in_flight_parents = None

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages."""
        self._table.close(sequence)
        del self._evaluated[sequence]

    def _gather(self, sequence: SequenceId, sources: Sequence[int], start: int) -> None:
        """Copies slots to consecutive ones from `start` on; the fancy index copies first."""
        all_pages, all_offsets = self._table.slots(sequence, 0, max(sources) + 1)
        source = (all_pages[sources], slice(None), all_offsets[sources])
        stop = start + len(sources)
        target = (all_pages[start:stop], slice(None), all_offsets[start:stop])
        for storage in (*self._keys, *self._values):
            storage[target] = storage[source]

    def _check_layers(self, sequence: SequenceId, num_layers: int) -> None:
        self._table.length(sequence)
        counts = self._evaluated[sequence].num_layers
        if counts and min(counts) < num_layers:
            first = next(i for i, count in enumerate(counts) if count < num_layers)
            raise ParameterError(
                f"num_layers = {num_layers} cannot be used for sequence {sequence}: its position "
                f"{first} was evaluated by {counts[first]} layers only; truncate it to {first} "
                "and evaluate those tokens again."
            )

    def _grow(self) -> None:
        """Enlarges the storage to the pages that exist, doubling so that growth stays cheap."""
        capacity, needed = len(self._keys[0]), self._table.pool.num_created
        if needed <= capacity:
            return
        limit = self._table.pool.limit
        wanted = max(needed, 2 * capacity)
        new_capacity = wanted if limit is None else min(wanted, limit)
        for storages in (self._keys, self._values):
            for layer, old in enumerate(storages):
                storages[layer] = np.empty((new_capacity, *old.shape[1:]), dtype=np.float32)
                storages[layer][:capacity] = old
