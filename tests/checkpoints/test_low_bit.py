"""A copy in fewer bits: what becomes smaller, what is kept, and what the two take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oneglance.checkpoints.base import ModelWeights, Tensor, unique_tensors
from oneglance.checkpoints.low_bit import layer_share, low_bit_weights, pass_bits
from oneglance.checkpoints.requantize import requantize
from oneglance.config import EngineConfig
from oneglance.engine.native import is_available
from tests.engine.random_models import random_model
from tests.native.models import quantized

SHAPE = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96}


def model(kind: str, **overrides: Any) -> ModelWeights:
    return quantized(random_model(5, **SHAPE, **overrides)[1], kind)


def kinds(weights: ModelWeights) -> set[str]:
    return {each.quantization for each in unique_tensors(weights) if len(each.shape) == 2}


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0"])
def test_matrices_become_smaller_and_vectors_stay(kind: str, is_tied: bool) -> None:
    weights = model(kind, has_tied_head=is_tied, has_qkv_bias=True, has_qk_norm=True)
    copy = low_bit_weights(weights, "auto")
    assert (copy.head is copy.embedding) == is_tied
    assert {copy.embedding.quantization, copy.head.quantization} == {"Q5_1"}
    np.testing.assert_array_equal(copy.head.data, requantize(weights.head, "Q5_1").data)
    assert copy.final_norm is weights.final_norm
    for layer, before in zip(copy.layers, weights.layers, strict=True):
        for name, tensor in vars(layer).items():
            if name.endswith("_proj"):
                expected = requantize(getattr(before, name), "Q4_1")
                np.testing.assert_array_equal(tensor.data, expected.data)
            else:
                assert tensor is getattr(before, name)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_what_is_small_already_stays(kind: str) -> None:
    weights = model(kind)
    copy = low_bit_weights(weights, "auto")
    assert copy == weights
    assert pass_bits(weights, "auto", is_low_bit=True) == pass_bits(weights, "auto")


def test_a_head_of_another_type_than_the_layers() -> None:
    weights = model("Q4_1")
    weights = replace(weights, head=model("Q8_0").head)
    copy = low_bit_weights(weights, "auto")
    assert kinds(copy) == {"Q4_1", "Q5_1"}
    assert copy.layers == weights.layers
    assert copy.embedding is weights.embedding


def test_rows_that_are_no_whole_groups_stay() -> None:
    weights = random_model(5, intermediate_size=48)[1]
    copy = low_bit_weights(weights, "auto")
    assert copy.layers[0].down_proj is weights.layers[0].down_proj
    assert copy.layers[0].up_proj.quantization == "Q4_1"


def test_progress_ends_complete() -> None:
    calls: list[tuple[str, int, int]] = []
    low_bit_weights(model("F32"), "auto", lambda *call: calls.append(call))
    assert calls == [("make 4-bit copy", done, 4) for done in (1, 2, 3, 4)]


@pytest.mark.skipif(not is_available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize(
    ("kind", "form"), [("F32", "auto"), ("F32", "bf16"), ("BF16", "f32"), ("Q8_0", "auto")]
)
def test_the_bits_are_those_that_the_native_engine_reads(
    kind: str, form: Any, is_tied: bool
) -> None:
    from oneglance.engine.native.engine import NativeEngine

    # Whole tiles of 32 outputs, so that nothing is padded.
    config, weights = random_model(
        5,
        **SHAPE,
        vocab_size=96,
        num_heads=4,
        num_kv_heads=2,
        has_tied_head=is_tied,
    )
    weights = quantized(weights, kind)
    engine_config = EngineConfig(weights=form, num_threads=1)
    engine = NativeEngine(config, weights, engine_config)
    assert pass_bits(weights, form) == 8 * engine.pass_bytes
    copy = NativeEngine(config, low_bit_weights(weights, form), engine_config)
    assert pass_bits(weights, form, is_low_bit=True) == 8 * copy.pass_bytes
    head = weights.head.shape[0] * weights.head.shape[1]
    share = layer_share(weights, form)
    matrices = sum(
        each.shape[0] * each.shape[1]
        for each in vars(weights.layers[0]).values()
        if isinstance(each, Tensor) and len(each.shape) == 2
    )
    assert share == pytest.approx(matrices / (3 * matrices + head))
