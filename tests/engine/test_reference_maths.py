"""The engine computes the model that an independent float64 formula defines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oneglance.checkpoints.base import ModelWeights, Tensor
from oneglance.config import RopeScaling
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import CheckpointError, ParameterError
from tests.engine.oracle import oracle_hidden, oracle_logits
from tests.engine.passes import append, random_tokens
from tests.engine.random_models import FLAVOURS, random_model

TOKENS = random_tokens(0, 100)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_logits_equal_the_float64_formula(flavour: str) -> None:
    config, weights = random_model(3, **FLAVOURS[flavour])
    engine = ReferenceEngine(config, weights)
    logits = append(engine, engine.open(), TOKENS, chunk=33)
    expected = oracle_logits(config, weights, TOKENS)
    assert logits.dtype == np.float32
    assert np.abs(logits - expected).max() < 2e-5 * np.abs(expected).max()


def test_flavours_differ_from_the_plain_model() -> None:
    # Guards the test above: a flavour whose branch has no effect would pass it trivially.
    plain = oracle_logits(*random_model(3), TOKENS)
    for flavour in ("linear_rope", "llama3_rope", "stored_divisors", "mistral"):
        config, weights = random_model(3, **FLAVOURS[flavour])
        assert np.abs(oracle_logits(config, weights, TOKENS) - plain).max() > 1e-2


def test_hidden_layers_are_the_residual_stream_and_the_final_state() -> None:
    config, weights = random_model(4)
    engine = ReferenceEngine(config, weights)
    first, second = TOKENS[:5], TOKENS[5:12]
    trees = tuple(TreeRows.chain(engine.open(), part, False) for part in (first, second))
    output = engine.forward(Batch(trees, hidden_layers=(0, 2, 3)))
    assert [part.shape for part in output.logits] == [(0, config.vocab_size)] * 2
    for part, tokens in enumerate((first, second)):
        streams = oracle_hidden(config, weights, tokens)
        for layer in (0, 2):
            assert_allclose(output.hidden[layer][part], streams[layer], rtol=1e-4, atol=1e-5)
        # The final state is the head's input.
        logits = output.hidden[3][part] @ weights.head.data.astype(np.float32).T
        assert_allclose(logits, oracle_logits(config, weights, tokens), rtol=1e-4, atol=1e-4)


def test_early_exit_evaluates_only_the_first_layers() -> None:
    config, weights = random_model(5)
    engine = ReferenceEngine(config, weights)
    for num_layers in (1, 2, 3):
        batch = Batch((TreeRows.chain(engine.open(), TOKENS[:9]),), (num_layers,), num_layers)
        output = engine.forward(batch)
        expected = oracle_logits(config, weights, TOKENS[:9], num_layers)
        assert_allclose(output.logits[0], expected, rtol=1e-4, atol=1e-4)
        logits = output.hidden[num_layers][0] @ weights.head.data.astype(np.float32).T
        assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_early_exit_prefix_is_not_read_by_deeper_passes() -> None:
    engine = ReferenceEngine(*random_model(5))
    sequence = engine.open()
    append(engine, sequence, TOKENS[:4])
    engine.forward(Batch((TreeRows.chain(sequence, TOKENS[4:6]),), num_layers=2))
    engine.commit(sequence, [0, 1])
    branch = engine.fork(sequence)
    for deep in (sequence, branch):
        with pytest.raises(ParameterError, match="position 4 was evaluated with num_layers = 2;"):
            engine.forward(Batch((TreeRows.chain(deep, [1]),)))
    engine.forward(Batch((TreeRows.chain(sequence, [1]),), num_layers=1))
    engine.truncate(sequence, 4)
    assert append(engine, sequence, TOKENS[4:]).shape == (96, 97)


def test_only_wanted_rows_have_logits() -> None:
    engine = ReferenceEngine(*random_model(6))
    every = engine.forward(Batch((TreeRows.chain(engine.open(), TOKENS[:6]),))).logits[0]
    wanted = [False, True, False, False, True, True]
    some = engine.forward(Batch((TreeRows.chain(engine.open(), TOKENS[:6], wanted),))).logits[0]
    assert np.array_equal(some, every[wanted])


def test_padding_of_the_vocabulary_is_cut_off() -> None:
    config, weights = random_model(7)
    engine = ReferenceEngine(replace(config, vocab_size=90), weights)
    tokens = [token % 90 for token in TOKENS[:8]]
    logits = append(engine, engine.open(), tokens)
    assert logits.shape == (8, 90)
    expected = oracle_logits(config, weights, tokens)[:, :90]
    assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 3e38])
def test_weights_that_are_not_finite_neither_hang_nor_warn(poison: float) -> None:
    config, weights = random_model(8)
    data = weights.layers[1].up_proj.data.copy()
    data[0, 0] = poison
    broken = replace(weights.layers[1], up_proj=replace(weights.layers[1].up_proj, data=data))
    layers = (weights.layers[0], broken, weights.layers[2])
    engine = ReferenceEngine(config, replace(weights, layers=layers))
    logits = append(engine, engine.open(), TOKENS[:5])
    assert logits.shape == (5, 97)
    assert poison == 3e38 or not np.isfinite(logits).all()


def test_an_empty_pass_returns_nothing() -> None:
    output = ReferenceEngine(*random_model(1)).forward(Batch((), hidden_layers=(1,)))
    assert output.logits == ()
    assert output.hidden == {1: ()}


def test_loading_reports_progress() -> None:
    calls: list[tuple[str, int, int]] = []
    ReferenceEngine(*random_model(1), progress=lambda *call: calls.append(call))
    assert calls == [("load weights", done, 4) for done in (1, 2, 3, 4)]


def test_requests_for_what_does_not_exist_are_refused() -> None:
    engine = ReferenceEngine(*random_model(1))
    sequence = engine.open()
    with pytest.raises(ParameterError, match="Token id 97 does not exist"):
        engine.forward(Batch((TreeRows.chain(sequence, [3, 97]),)))
    with pytest.raises(ParameterError, match="Token id -1 does not exist"):
        engine.forward(Batch((TreeRows.chain(sequence, [-1]),)))
    for num_layers in (0, 4):
        with pytest.raises(ParameterError, match=f"num_layers = {num_layers} cannot be used"):
            engine.forward(Batch((TreeRows.chain(sequence, [3]),), num_layers=num_layers))
    for skipped in ((-1,), (0, 2)):
        batch = Batch((TreeRows.chain(sequence, [3]),), num_layers=2, skipped_layers=skipped)
        with pytest.raises(ParameterError, match=r"skipped_layers = .* must be 0 to 1"):
            engine.forward(batch)
    with pytest.raises(ParameterError, match="hidden_layers = "):
        engine.forward(Batch((TreeRows.chain(sequence, [3]),), (3,), num_layers=2))


def _damaged(weights: ModelWeights, **changes: Tensor) -> ModelWeights:
    return replace(weights, layers=(replace(weights.layers[0], **changes), *weights.layers[1:]))


def test_weights_that_contradict_the_configuration_are_refused() -> None:
    config, weights = random_model(1)
    layer = weights.layers[0]
    with pytest.raises(CheckpointError, match=r"'layers\.0\.k_proj' has shape \(32, 32\)"):
        ReferenceEngine(
            config, _damaged(weights, k_proj=replace(layer.q_proj, name=layer.k_proj.name))
        )
    with pytest.raises(CheckpointError, match="has 1 of its biases or head norms"):
        ReferenceEngine(config, _damaged(weights, q_bias=layer.input_norm))
    with pytest.raises(CheckpointError, match="demands 3"):
        ReferenceEngine(replace(config, has_qkv_bias=True), weights)
    with pytest.raises(CheckpointError, match="has 3 layers"):
        ReferenceEngine(replace(config, num_layers=4), weights)
    with pytest.raises(CheckpointError, match="'embedding' has shape"):
        ReferenceEngine(replace(config, vocab_size=98), weights)
    scaling = RopeScaling("llama3", 8.0, frequency_divisors=(1.0,))
    with pytest.raises(CheckpointError, match="1 rotary divisors"):
        ReferenceEngine(replace(config, rope_scaling=scaling), weights)
