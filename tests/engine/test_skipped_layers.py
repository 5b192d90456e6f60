"""Layers that a pass leaves out: the model without them, and a cache that nobody else reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, Engine, SequenceId, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.engine.native import is_available
from oneglance.errors import ParameterError
from oneglance.types import Float32Array
from tests.engine.passes import append
from tests.engine.random_models import random_model

TOKENS = [5, 17, 3, 88, 41, 2, 60, 7]
SHAPE = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96, "num_layers": 4}
SKIPPED = (1, 2)
KINDS = ("reference", "native") if is_available() else ("reference",)


@pytest.fixture(params=KINDS)
def config_of_engine(request: pytest.FixtureRequest) -> EngineConfig:
    return EngineConfig(page_size=4, kind=request.param)


@pytest.fixture
def engine(config_of_engine: EngineConfig) -> Engine:
    return make_engine(*random_model(3, **SHAPE), config_of_engine)


def skipping(engine: Engine, sequence: SequenceId, tokens: list[int]) -> Float32Array:
    """Logits of a pass that leaves layers out, which is committed."""
    batch = Batch((TreeRows.chain(sequence, tokens),), skipped_layers=SKIPPED)
    logits = engine.forward(batch).logits[0]
    engine.commit(sequence, range(len(tokens)))
    return logits


def test_it_is_the_model_without_those_layers(
    engine: Engine, config_of_engine: EngineConfig
) -> None:
    config, weights = random_model(3, **SHAPE)
    kept = tuple(layer for i, layer in enumerate(weights.layers) if i not in SKIPPED)
    smaller = make_engine(
        replace(config, num_layers=2), replace(weights, layers=kept), config_of_engine
    )
    expected = append(smaller, smaller.open(), TOKENS)
    sequence = engine.open()
    found = [skipping(engine, sequence, TOKENS[:3]), skipping(engine, sequence, TOKENS[3:])]
    assert np.array_equal(np.concatenate(found), expected)
    assert not np.array_equal(expected, append(engine, engine.open(), TOKENS))


def test_hidden_states_pass_a_skipped_layer_unchanged(engine: Engine) -> None:
    rows = TreeRows.chain(engine.open(), TOKENS)
    hidden = engine.forward(Batch((rows,), (1, 2, 3), skipped_layers=SKIPPED)).hidden
    assert np.array_equal(hidden[1][0], hidden[2][0])
    assert np.array_equal(hidden[1][0], hidden[3][0])


def test_it_reads_a_prefix_of_all_layers_and_leaves_no_trace_when_dropped(engine: Engine) -> None:
    expected = append(engine, engine.open(), TOKENS)
    sequence = engine.open()
    append(engine, sequence, TOKENS[:4])
    skipping(engine, sequence, TOKENS[4:6])
    skipping(engine, sequence, [9])
    engine.truncate(sequence, 4)
    assert np.array_equal(append(engine, sequence, TOKENS[4:]), expected[4:])


def test_nobody_else_reads_what_it_wrote(engine: Engine) -> None:
    sequence = engine.open()
    append(engine, sequence, TOKENS[:2])
    skipping(engine, sequence, TOKENS[2:4])
    for batch in (
        Batch((TreeRows.chain(sequence, [1]),)),
        Batch((TreeRows.chain(sequence, [1]),), skipped_layers=(1,)),
    ):
        with pytest.raises(
            ParameterError,
            match=r"position 2 was evaluated with num_layers = 4, skipped_layers = \(1, 2\);",
        ):
            engine.forward(batch)
    assert engine.length(sequence) == 4
