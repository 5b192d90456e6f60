"""Asking a pass for the best tokens of its rows, on every engine that there is."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.engine.reference import ReferenceEngine
from oneglance.engine.top_tokens import top_tokens
from oneglance.errors import ParameterError
from oneglance.testing import ScriptedEngine, random_script
from tests.engine.passes import random_tokens
from tests.engine.random_models import random_model

V = 97


@pytest.fixture(params=["native", "reference", "scripted"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "scripted":
        return ScriptedEngine(random_script(V, seed=3), V)
    model = random_model(5, hidden_size=64, head_dim=16, intermediate_size=96)
    if request.param == "reference":
        return ReferenceEngine(*model)
    native = pytest.importorskip("oneglance.engine.native.engine")
    made: Engine = native.NativeEngine(*model, EngineConfig(num_threads=2))
    return made


def trees(engine: Engine) -> tuple[TreeRows, ...]:
    """Rows of three sequences, of which the second wants nothing."""
    wishes = ([True, False, True, True], [False, False], [True])
    return tuple(
        TreeRows.chain(engine.open(), random_tokens(seed, len(wish)), wish)
        for seed, wish in enumerate(wishes)
    )


@pytest.mark.parametrize(
    ("num_top", "num_ids"), [(1, None), (5, None), (1, 90), (7, 33), (500, None), (500, 12)]
)
def test_they_are_the_first_of_the_sorted_rows(
    engine: Engine, num_top: int, num_ids: int | None
) -> None:
    rows = trees(engine)
    everything = engine.forward(Batch(rows))
    assert everything.top == ()
    output = engine.forward(Batch(rows, num_top=num_top, top_vocab_size=num_ids))
    assert output.logits == ()
    assert [len(top.ids) for top in output.top] == [3, 0, 1]
    for top, logits in zip(output.top, everything.logits, strict=True):
        cut = logits[:, :num_ids]
        order = np.argsort(-cut, axis=1, kind="stable")[:, :num_top]
        assert top.ids.dtype == np.int64
        assert top.logits.dtype == np.float32
        assert np.array_equal(top.ids, order)
        assert np.array_equal(top.logits, np.take_along_axis(cut, order, axis=1))


@pytest.mark.parametrize(
    ("num_top", "num_ids", "message"),
    [
        (0, None, "num_top = 0 cannot be used; it must be at least 1"),
        (1, 0, "top_vocab_size = 0 cannot be used; it must be 1 to 97"),
        (1, 98, "top_vocab_size = 98 cannot be used"),
    ],
)
def test_what_no_row_can_give_is_refused(num_top: int, num_ids: int | None, message: str) -> None:
    engine = ReferenceEngine(*random_model(5))
    rows = (TreeRows.chain(engine.open(), [1]),)
    with pytest.raises(ParameterError, match=message):
        engine.forward(Batch(rows, num_top=num_top, top_vocab_size=num_ids))
    with pytest.raises(AssertionError, match="a limit to nothing"):
        Batch(rows, top_vocab_size=5)


def test_order_of_equal_and_broken_logits() -> None:
    nan, inf = np.nan, np.inf
    logits = np.array(
        [[1, 2, 2, 0, 2], [inf, nan, 3, nan, -inf], [-inf] * 5, [0.0, -0.0, 0.0, -1, -0.0]],
        dtype=np.float32,
    )
    expected = [[1, 2, 4, 0, 3], [1, 3, 0, 2, 4], [0, 1, 2, 3, 4], [0, 1, 2, 4, 3]]
    for num_top in (1, 3, 5):
        top = top_tokens(logits, num_top)
        assert top.ids.tolist() == [row[:num_top] for row in expected]
    assert list(top_tokens(logits, 1).ids[:, 0]) == list(np.argmax(logits, axis=1))
