"""What the machine gives."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from oneglance.bench.machine import held_memory, peak_memory, read_bandwidth
from oneglance.engine.native import is_available
from oneglance.types import EngineInfo


def test_memory_is_told_in_bytes() -> None:
    before = held_memory()
    if before is None:
        pytest.skip("this system does not tell")
    pages = mmap.mmap(-1, 64 << 20)  # straight from the system, not from what was freed before
    np.frombuffer(pages, np.uint8).fill(1)
    after = held_memory()
    assert after is not None
    assert after - before == pytest.approx(len(pages), rel=0.1)
    assert peak_memory() >= 0.99 * after


def test_only_the_native_engine_has_a_bandwidth() -> None:
    assert read_bandwidth(EngineInfo("reference")) is None
    if is_available():
        rate = read_bandwidth(EngineInfo("native", None, 1))
        assert rate is not None
        assert 1e8 < rate < 1e13
