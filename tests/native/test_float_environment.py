"""A process that flushes denormals to zero gets the same bits from the kernels."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from oneglance import _native
from oneglance.engine.native.engine import NativeEngine
from tests.engine.passes import append
from tests.native.attention_oracle import Floats, assert_same_bits
from tests.native.models import native_engine

if sys.platform != "linux" or platform.machine() != "x86_64":
    pytest.skip("knows the C library's float environment on x86-64 only", allow_module_level=True)

FENV_BYTES = 32
MXCSR_OFFSET = 28
FLUSH_TO_ZERO, DENORMALS_ARE_ZERO, ROUND_UP = 0x8000, 0x0040, 0x4000
DENORMAL = np.float32(1e-40)


@contextmanager
def modes(bits: int) -> Iterator[None]:
    """Sets bits of this thread's MXCSR register, as a library built for speed might."""
    library = ctypes.CDLL("libm.so.6")
    before = ctypes.create_string_buffer(FENV_BYTES)
    assert library.fegetenv(before) == 0
    changed = ctypes.create_string_buffer(before.raw, FENV_BYTES)
    word = ctypes.c_uint32.from_buffer(changed, MXCSR_OFFSET)
    word.value |= bits
    library.fesetenv(changed)
    try:
        yield
    finally:
        library.fesetenv(before)


def is_flushing() -> bool:
    # An array, so that numpy computes with vector instructions.
    return not (np.full(16, DENORMAL) * np.float32(0.5)).any()


def inputs() -> dict[str, Floats]:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((3, 64), dtype=np.float32)
    weights = rng.standard_normal((64, 64), dtype=np.float32)
    return {"rows": rows, "tiny": rows * DENORMAL, "small": rows * np.float32(1e-34), "w": weights}


def results(
    runtime: _native.Runtime, engine: NativeEngine, given: dict[str, Floats]
) -> dict[str, Floats]:
    matrix = _native.pack(given["w"].view(np.uint8).reshape(-1), "F32", 64, 64, 1)
    ones = np.ones(64, dtype=np.float32)
    return {
        "matmul": _native.matmul(runtime, matrix, given["small"]),
        "rms_norm": _native.rms_norm(runtime, given["tiny"], ones, 2.0**-17),
        "swiglu": _native.swiglu(runtime, given["tiny"], given["rows"]),
        "engine": append(engine, engine.open(), [1, 2, 3, 4, 5]),
    }


@pytest.mark.parametrize("isa", _native.available_isas())
@pytest.mark.parametrize("bits", [FLUSH_TO_ZERO | DENORMALS_ARE_ZERO, ROUND_UP])
def test_modes_of_the_process_change_no_bit(isa: str, bits: int) -> None:
    runtime, engine, given = _native.Runtime(isa, 2), native_engine(isa=isa), inputs()
    expected = results(runtime, engine, given)
    with modes(bits):
        assert is_flushing() == (bits != ROUND_UP)
        found = results(runtime, engine, given)
        assert is_flushing() == (bits != ROUND_UP), "the process's own modes were not put back"
    for name, values in expected.items():
        assert_same_bits(found[name], values)
    # Else the test could not fail: without its own environment these would be flushed.
    assert np.abs(expected["swiglu"]).max() < np.finfo(np.float32).tiny
    assert np.abs(expected["rms_norm"]).any()
