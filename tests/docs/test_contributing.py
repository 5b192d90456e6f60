"""The worked example of CONTRIBUTING: it runs, is registered with that line, and is proved."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from oneglance.config import SamplingParams
from oneglance.drafters import factory
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.setup import DrafterSetup
from oneglance.registry import Registry
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import check_drafter
from tests.docs.documents import CONTRIBUTING, code_blocks, read

DRAFTER, REGISTRATION, TEST = code_blocks(read(CONTRIBUTING), "python")


@pytest.fixture
def repeat_drafter(monkeypatch: pytest.MonkeyPatch) -> type[Drafter[Any]]:
    module = ModuleType("oneglance.drafters.repeat")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    exec(compile(DRAFTER, "repeat.py", "exec"), module.__dict__)
    return cast(type[Drafter[Any]], module.RepeatDrafter)


def test_the_drafter_drafts(repeat_drafter: type[Drafter[Any]]) -> None:
    drafter = repeat_drafter()
    session = drafter.start(DraftContext((3, 7), SamplingParams(), SequentialNoise(0)))
    assert list(drafter.propose([DraftRequest(session, 3)])[0].tokens) == [7, 7, 7]
    drafter.observe(session, [7, 2])
    assert list(drafter.propose([DraftRequest(session, 2)])[0].tokens) == [2, 2]


def test_the_proof_passes(repeat_drafter: type[Drafter[Any]]) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(TEST, "test_repeat.py", "exec"), namespace)
    assert namespace["check_drafter"] is check_drafter
    assert namespace["RepeatDrafter"] is repeat_drafter
    namespace["test_changes_no_answer"]()


def test_the_line_registers_it(
    repeat_drafter: type[Drafter[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry: Registry[factory.DrafterFactory] = Registry("drafter")
    monkeypatch.setattr(factory, "DRAFTERS", registry)
    exec(REGISTRATION, {**vars(factory), "RepeatDrafter": repeat_drafter})
    setup = cast(DrafterSetup, None)  # a drafter without an argument needs none
    assert isinstance(factory.make_drafter("repeat", setup), repeat_drafter)


def test_the_example_is_formatted_and_short() -> None:
    assert len(DRAFTER.splitlines()) < 40
    assert all(len(line) <= 100 for line in DRAFTER.splitlines())
    assert not (Path(factory.__file__).parent / "repeat.py").exists(), "then use another example"
