"""The key-value cache of the native engine: its book in Python, its pages in C++."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oneglance import _native
from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.base import SequenceId
from oneglance.engine.paged_cache import PagedCache
from oneglance.engine.pages import PageCopy


class NativeCache(PagedCache):
    """Pages that hold all layers of `page_size` positions, in float16 or float32."""

    def __init__(self, config: ModelConfig, engine_config: EngineConfig) -> None:
        """Creates an empty cache; memory is taken as sequences need it."""
        super().__init__(engine_config)
        self.page_size = engine_config.page_size
        self.storage = _native.KvCache(
            num_layers=config.num_layers,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            page_size=engine_config.page_size,
            is_half=engine_config.kv_dtype == "f16",
        )

    def _grow(self, num_pages: int) -> None:
        self.storage.grow(num_pages)

    def _copy_page(self, copy: PageCopy) -> None:
        self.storage.copy_page(copy.source, copy.target)

    def _gather(self, sequence: SequenceId, sources: Sequence[int], start: int) -> None:
        self.storage.gather(
            np.asarray(self.pages(sequence), dtype=np.int32),
            np.asarray(sources, dtype=np.int32),
            np.arange(start, start + len(sources), dtype=np.int32),
        )
