"""The key-value cache of the reference engine: pages as numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.base import SequenceId
from oneglance.engine.paged_cache import PagedCache
from oneglance.engine.pages import PageCopy
from oneglance.types import Float32Array


class KVCache(PagedCache):
    """Keys and values of every layer, [pages, kv_heads, page_size, head_dim] float32 each."""

    def __init__(self, config: ModelConfig, engine_config: EngineConfig) -> None:
        """Creates an empty cache; memory is taken as sequences need it."""
        super().__init__(engine_config)
        shape = (0, config.num_kv_heads, engine_config.page_size, config.head_dim)
        self._keys = [np.empty(shape, dtype=np.float32) for _ in range(config.num_layers)]
        self._values = [np.empty(shape, dtype=np.float32) for _ in range(config.num_layers)]

    def write(
        self, layer: int, sequence: SequenceId, keys: Float32Array, values: Float32Array
    ) -> None:
        """Stores the last rows in flight in one layer; both are [rows, kv_heads, head_dim]."""
        stop = self._table.length(sequence) + self._table.num_in_flight(sequence)
        pages, offsets = self._table.slots(sequence, stop - len(keys), stop)
        self._keys[layer][pages, :, offsets] = keys
        self._values[layer][pages, :, offsets] = values

    def read_in_flight(self, layer: int, sequence: SequenceId) -> tuple[Float32Array, Float32Array]:
        """Keys and values of all rows in flight in one layer, [N, kv_heads, head_dim] each."""
        start = self._table.length(sequence)
        stop = start + self._table.num_in_flight(sequence)
        pages, offsets = self._table.slots(sequence, start, stop)
        return self._keys[layer][pages, :, offsets], self._values[layer][pages, :, offsets]

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

    def _grow(self, num_pages: int) -> None:
        """Enlarges the storage, doubling so that growth stays cheap."""
        capacity = len(self._keys[0])
        if num_pages <= capacity:
            return
        limit = self._table.pool.limit
        wanted = max(num_pages, 2 * capacity)
        new_capacity = wanted if limit is None else min(wanted, limit)
        for storages in (self._keys, self._values):
            for layer, old in enumerate(storages):
                storages[layer] = np.empty((new_capacity, *old.shape[1:]), dtype=np.float32)
                storages[layer][:capacity] = old

    def _copy_page(self, copy: PageCopy) -> None:
        for storage in (*self._keys, *self._values):
            storage[copy.target] = storage[copy.source]

    def _gather(self, sequence: SequenceId, sources: Sequence[int], start: int) -> None:
        # The fancy index copies before anything is written.
        all_pages, all_offsets = self._table.slots(sequence, 0, max(sources) + 1)
        source = (all_pages[sources], slice(None), all_offsets[sources])
        stop = start + len(sources)
        target = (all_pages[start:stop], slice(None), all_offsets[start:stop])
        for storage in (*self._keys, *self._values):
            storage[target] = storage[source]
