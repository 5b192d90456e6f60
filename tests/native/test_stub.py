"""The types that `_native.pyi` states are those of the compiled module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import oneglance
from oneglance import _native

STUB = Path(oneglance.__file__).with_name("_native.pyi")


@pytest.mark.skipif(importlib.util.find_spec("nanobind") is None, reason="nanobind writes stubs")
def test_the_stub_is_up_to_date() -> None:
    from nanobind.stubgen import StubGen  # type: ignore[import-untyped]

    generator = StubGen(_native)
    generator.put(_native)
    assert generator.get() == STUB.read_text(), "run `make stub`"
