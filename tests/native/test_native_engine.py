"""The native engine computes the reference engine's model, and is refused what it cannot run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oneglance.checkpoints.base import ModelWeights, Tensor
from oneglance.config import EngineConfig, WeightsForm
from oneglance.engine import reference
from oneglance.engine.arithmetic import project
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import CapacityError, CheckpointError, ParameterError, UnsupportedError
from oneglance.types import Float32Array
from tests.engine.passes import append, opened, random_tokens, scratch
from tests.engine.random_models import FLAVOURS, random_model
from tests.native.models import KEPT, MODELS, QUANTIZED, SHAPE, native_engine, native_model

TOKENS = random_tokens(0, 100)
WIDE_CACHE = EngineConfig(kv_dtype="f32")


def quantized_activations(rows: Float32Array) -> Float32Array:
    """Rows as the kernels see them: 8 bits per value, a scale for each 32 values."""
    groups = rows.reshape(*rows.shape[:-1], -1, 32)
    amax = np.abs(groups).max(axis=-1, keepdims=True)
    inverse = np.divide(np.float32(127), amax, out=np.zeros_like(amax), where=amax > 0)
    integers = np.rint(groups * inverse)
    values: Float32Array = (integers * (amax / np.float32(127))).reshape(rows.shape)
    return values


def lossless(model: str) -> tuple[NativeEngine, ReferenceEngine]:
    """Both engines with the very same weights; floats in the file would be quantised by one."""
    config, weights = native_model(model)
    return NativeEngine(config, weights, WIDE_CACHE), ReferenceEngine(config, weights)


@pytest.mark.parametrize("model", QUANTIZED)
def test_logits_equal_those_of_the_reference_engine_with_quantised_activations(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is left but the order of float sums, and, in few rows, an activation that lies so
    # close to a rounding border that the order decides: a step is 1/127 of its group's greatest.
    # Short sequences keep such a step to itself.
    monkeypatch.setattr(
        reference, "project", lambda weight, rows: project(weight, quantized_activations(rows))
    )
    native, oracle = lossless(model)
    logits, expected = (
        np.concatenate(
            engine.forward(
                Batch(tuple(TreeRows.chain(engine.open(), TOKENS[i : i + 5]) for i in range(90)))
            ).logits
        )
        for engine in (native, oracle)
    )
    errors = np.abs(logits - expected).max(axis=1) / np.abs(expected).max()
    assert np.quantile(errors, 0.75) < 3e-6
    assert errors.max() < 3e-2


@pytest.mark.parametrize("model", MODELS)
def test_logits_are_close_to_the_reference_engine(model: str) -> None:
    # Rounding to 8 bits moves an activation by up to 0.4 % of its group's greatest, and each of
    # three layers adds to that: in all some per cent of the spread of the logits.
    config, weights = native_model(model)
    native, oracle = NativeEngine(config, weights), ReferenceEngine(config, weights)
    logits = append(native, native.open(), TOKENS, chunk=33)
    expected = append(oracle, oracle.open(), TOKENS, chunk=33)
    assert logits.dtype == np.float32
    error = logits - expected
    assert np.sqrt(np.mean(error**2)) < 0.08 * expected.std()


@pytest.mark.parametrize("weights", ["f32", "bf16"])
@pytest.mark.parametrize("flavour", MODELS)
def test_kept_floats_are_the_reference_engines_model(flavour: str, weights: WeightsForm) -> None:
    # With a float32 cache nothing is left but the order of float sums. Both round to bf16.
    shape = {**FLAVOURS.get(flavour, {}), **SHAPE, **MODELS[flavour][1]}
    model = random_model(17, **shape)
    logits, expected = (
        append(engine, engine.open(), TOKENS, chunk=33)
        for engine in (
            NativeEngine(*model, EngineConfig(kv_dtype="f32", weights=weights)),
            ReferenceEngine(*model, EngineConfig(weights=weights)),
        )
    )
    assert np.abs(logits - expected).max() < 1e-4 * np.abs(expected).max()


def test_rounding_to_bf16_has_an_effect_in_both_engines() -> None:
    # Guards the test above: engines that ignore it would agree too.
    model = random_model(17, **SHAPE)
    for kind in (NativeEngine, ReferenceEngine):
        exact, rounded = (
            scratch(kind(*model, EngineConfig(weights=form, kv_dtype="f32")), TOKENS[:9])
            for form in ("f32", "bf16")
        )
        difference = np.abs(exact - rounded).max() / np.abs(exact).max()
        assert 1e-3 < difference < 5e-2


@pytest.mark.parametrize("model", KEPT)
def test_packed_floats_take_their_bytes(model: str) -> None:
    auto, bf16, f32 = (
        native_engine(model, weights=form).weight_bytes for form in ("auto", "bf16", "f32")
    )
    assert auto < bf16 < f32 <= 2 * bf16


def test_hidden_layers_and_early_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reference, "project", lambda weight, rows: project(weight, quantized_activations(rows))
    )
    native, oracle = lossless("qwen3")
    for num_layers in (1, 2, 3):
        outputs = []
        for engine in (native, oracle):
            trees = tuple(
                TreeRows.chain(engine.open(), part, [False] * (len(part) - 1) + [True])
                for part in (TOKENS[:5], TOKENS[5:12])
            )
            layers = tuple(range(num_layers + 1))
            outputs.append(engine.forward(Batch(trees, layers, num_layers)))
        first, second = outputs
        assert first.hidden.keys() == second.hidden.keys()
        for layer, parts in first.hidden.items():
            for part, expected in zip(parts, second.hidden[layer], strict=True):
                assert_allclose(part, expected, rtol=0, atol=2e-2 * np.abs(expected).max())
        for logits, expected in zip(first.logits, second.logits, strict=True):
            assert logits.shape == (1, 97)
            assert_allclose(logits, expected, rtol=0, atol=3e-2 * np.abs(expected).max())


def test_a_prefix_of_fewer_layers_is_not_read_by_more() -> None:
    engine = native_engine()
    sequence = opened(engine, [1, 2])
    engine.forward(Batch((TreeRows.chain(sequence, [3]),), num_layers=1))
    engine.commit(sequence, [0])
    with pytest.raises(ParameterError, match="its position 2 was evaluated with num_layers = 1;"):
        engine.forward(Batch((TreeRows.chain(sequence, [4]),)))
    engine.truncate(sequence, 2)
    assert np.array_equal(append(engine, sequence, [3]), scratch(engine, [1, 2, 3])[2:])


def test_rows_that_want_no_logits_and_batches_of_nothing() -> None:
    engine = native_engine()
    rows = TreeRows.chain(engine.open(), TOKENS[:4], [False, True, False, True])
    output = engine.forward(Batch((rows, TreeRows.chain(engine.open(), [5], False))))
    assert np.array_equal(output.logits[0], scratch(engine, TOKENS[:4])[[1, 3]])
    assert output.logits[1].shape == (0, 97)
    assert engine.forward(Batch((), hidden_layers=(1,))).hidden == {1: ()}


def test_capacity_is_refused_before_anything_changes() -> None:
    config, weights = native_model("llama", context_length=40)
    engine = NativeEngine(config, weights, EngineConfig(page_size=4, num_pages=10))
    sequence = opened(engine, TOKENS[:38])
    with pytest.raises(CapacityError, match="would reach 41 positions"):
        engine.forward(Batch((TreeRows.chain(sequence, [1, 2, 3]),)))
    with pytest.raises(CapacityError, match="needs 2 more pages of 4 positions"):
        engine.forward(Batch((TreeRows.chain(engine.open(), [1] * 5),)))
    assert append(engine, sequence, [1, 2]).shape == (2, 97)


def test_wrong_ids_are_refused() -> None:
    engine = native_engine()
    sequence = engine.open()
    with pytest.raises(ParameterError, match="Token id 97 does not exist"):
        engine.forward(Batch((TreeRows.chain(sequence, [97]),)))
    engine.close(sequence)
    with pytest.raises(ParameterError, match="is not open"):
        engine.forward(Batch((TreeRows.chain(sequence, [1]),)))


def test_a_padded_vocabulary_loses_its_padding() -> None:
    config, weights = native_model("llama_tied")
    engine = NativeEngine(replace(config, vocab_size=90), weights)
    logits = append(engine, engine.open(), [5, 89])
    assert logits.shape == (2, 90)
    assert np.array_equal(logits, scratch(NativeEngine(config, weights), [5, 89])[:, :90])


def test_progress_is_told() -> None:
    calls: list[tuple[str, int, int]] = []
    NativeEngine(*native_model("llama"), progress=lambda *call: calls.append(call))
    assert calls == [("load weights", done, 4) for done in (1, 2, 3, 4)]


def _with_q_proj(weights: ModelWeights, tensor: Tensor) -> ModelWeights:
    layers = (replace(weights.layers[0], q_proj=tensor), *weights.layers[1:])
    return replace(weights, layers=layers)


def test_damaged_checkpoints_are_refused() -> None:
    config, weights = native_model("linear_rope")
    with pytest.raises(CheckpointError, match="has 3 layers, but its configuration says 4"):
        NativeEngine(replace(config, num_layers=4), weights)
    with pytest.raises(CheckpointError, match=r"has shape .* but the configuration demands"):
        NativeEngine(replace(config, intermediate_size=64), weights)
    with pytest.raises(CheckpointError, match="0 of its biases or head norms"):
        NativeEngine(replace(config, has_qkv_bias=True), weights)
    q_proj = weights.layers[0].q_proj
    values = q_proj.dequantize()
    values[3, 5] = np.nan
    broken = _with_q_proj(weights, Tensor(q_proj.name, q_proj.shape, "F32", values))
    with pytest.raises(CheckpointError, match=r"'layers.0.q_proj' cannot be packed"):
        NativeEngine(config, broken)


def test_models_of_other_forms_are_refused_with_the_reason() -> None:
    with pytest.raises(UnsupportedError, match="heads have 8 elements, no multiple of 16"):
        NativeEngine(*random_model(1))
    config, weights = random_model(1, head_dim=16, hidden_size=40)
    with pytest.raises(UnsupportedError, match=r"'embedding' cannot be packed \(.*40"):
        NativeEngine(config, weights)


def test_instruction_sets_that_are_not_there() -> None:
    with pytest.raises(ParameterError, match=r"'sse9' cannot be used here; choose one of: .*porta"):
        native_engine(isa="sse9")
