"""Which engine a model gets, and what is said about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oneglance as og
from oneglance import _native
from oneglance.config import MAX_THREADS, EngineConfig
from oneglance.engine.factory import make_engine
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.native.threads import num_usable_cpus
from oneglance.engine.reference import ReferenceEngine
from oneglance.environment import read_environment
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.types import EngineInfo
from tests.engine.random_models import random_model
from tests.native.models import native_model
from tests.tiny_models import write_tiny_gguf


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("auto", NativeEngine), ("native", NativeEngine), ("reference", ReferenceEngine)],
)
def test_a_model_that_fits(kind: Any, expected: type) -> None:
    assert type(make_engine(*native_model("llama"), EngineConfig(kind=kind))) is expected


def test_a_model_that_does_not_fit() -> None:
    model = random_model(1)
    with pytest.warns(
        RuntimeWarning, match="slow reference engine is used: .* heads have 8"
    ) as told:
        assert isinstance(make_engine(*model), ReferenceEngine)
    assert len(told) == 1
    with pytest.raises(UnsupportedError, match=r"native engine cannot be used: .* heads have 8"):
        make_engine(*model, EngineConfig(kind="native"))
    make_engine(*model, EngineConfig(kind="reference"))  # asked for: nothing to warn of


WITHOUT_KERNELS = """
import sys, warnings
sys.modules["oneglance._native"] = None  # what an installation without them amounts to
import oneglance as og
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    with og.load(sys.argv[1]) as llm:
        print(llm.generate("Hello", max_tokens=3).token_ids)
print(*[warning.message for warning in told])
try:
    og.load(sys.argv[1], engine_config=og.EngineConfig(kind="native"))
except og.UnsupportedError as error:
    print(error)
"""


def test_an_installation_without_kernels_answers_and_warns_once(tmp_path: Path) -> None:
    path = str(write_tiny_gguf(tmp_path / "tiny.gguf"))
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_KERNELS, path], capture_output=True, text=True, check=True
    )
    answer, warning, refusal = result.stdout.splitlines()
    with og.load(path, engine_config=EngineConfig(kind="reference")) as llm:
        assert answer == str(llm.generate("Hello", max_tokens=3).token_ids)
    reason = "this installation was made without a C++ compiler and has no compiled kernels"
    assert warning == f"The slow reference engine is used: {reason}."
    assert refusal == f"The native engine cannot be used: {reason}; use the reference engine."


def test_load_takes_threads_and_cache_type(tmp_path: Path) -> None:
    path = str(write_tiny_gguf(tmp_path / "tiny.gguf"))
    with og.load(path, engine_config=EngineConfig(num_threads=3, kv_dtype="f32")) as llm:
        assert isinstance(llm.engine, NativeEngine)
        assert llm.engine.num_threads == 3


def test_the_environment_forces_the_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    best, *_ = _native.available_isas()
    for name, expected in (("portable", "portable"), ("", best), (best, best)):
        monkeypatch.setenv("ONEGLANCE_ISA", name)
        engine = make_engine(*native_model("llama"))
        assert isinstance(engine, NativeEngine)
        assert engine.isa == expected
    monkeypatch.setenv("ONEGLANCE_ISA", "sse9")
    with pytest.raises(ParameterError, match="'sse9' cannot be used here"):
        make_engine(*native_model("llama"))
    assert read_environment({}).isa is None


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("kind", "fast", "auto, native or reference"),
        ("kv_dtype", "f8", "f16 or f32"),
        ("weights", "f16", "auto, bf16 or f32"),
        ("num_threads", 2.5, "1 to 256"),
        ("num_threads", 0, "1 to 256"),
        ("num_threads", 257, "1 to 256"),
    ],
)
def test_bad_values_are_refused(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} = {value!r} cannot be used; .* {allowed}"):
        EngineConfig(**{name: value})


def test_threads_are_not_for_the_reference_engine() -> None:
    assert EngineConfig(kind="reference", num_threads=1).num_threads == 1
    with pytest.raises(ParameterError, match=r"num_threads = 2 .* 1 on the reference engine"):
        EngineConfig(kind="reference", num_threads=2)


def test_an_engine_says_what_it_is() -> None:
    model = native_model("mistral")
    native = make_engine(*model, EngineConfig(num_threads=3, weights="bf16"))
    best, *_ = _native.available_isas()
    assert native.info == EngineInfo("native", best, 3, "bf16")
    reference = make_engine(*model, EngineConfig(kind="reference", weights="f32"))
    assert reference.info == EngineInfo("reference", None, 1, "f32")
    assert reference.info.to_dict() == {
        "kind": "reference",
        "isa": None,
        "threads": 1,
        "weights": "f32",
    }


@pytest.mark.parametrize(
    ("limit", "most"), [("max 100000", MAX_THREADS), ("100000 100000", 1), ("5000 100000", 1)]
)
def test_a_containers_share_limits_the_threads(tmp_path: Path, limit: str, most: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(limit + "\n")
    assert 1 <= num_usable_cpus(file) <= most
    assert num_usable_cpus(file) <= num_usable_cpus(tmp_path / "missing")
