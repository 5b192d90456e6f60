"""Medusa's heads on the kernels, against the definition in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oneglance.engine.native.medusa import NativeMedusa
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array, IntArray
from tests.heads.medusa_heads import Arrays, random_heads, slow_logits, weights_of
from tests.native.models import native_engine, native_model

CONFIG, WEIGHTS = native_model("llama")
D, V = CONFIG.hidden_size, CONFIG.vocab_size
OUTPUT = WEIGHTS.head.dequantize()[:V]
IDS = np.array([1, 2, 5, 8, 13, V - 1])
ENGINE = native_engine()


def features(rows: int, seed: int = 5) -> Float32Array:
    return np.random.default_rng(seed).standard_normal((rows, D)).astype(np.float32)


def native(arrays: Arrays, ids: IntArray | None = None, vocab_size: int = V) -> NativeMedusa:
    return NativeMedusa(weights_of(arrays, D, V, ids), ENGINE, WEIGHTS.head, vocab_size)


@pytest.mark.parametrize(
    ("shape", "ids"),
    [
        ({"num_rows": V}, None),
        ({"num_rows": V, "num_layers": 3}, None),
        ({}, None),
        ({"num_layers": 2}, None),
        ({}, IDS),
        ({"num_rows": len(IDS)}, IDS),
    ],
    ids=["published", "three layers", "shared", "shared, two layers", "reduced", "reduced own"],
)
def test_the_kernels_say_what_the_definition_says(
    shape: dict[str, Any], ids: IntArray | None
) -> None:
    arrays = random_heads(D, **shape)
    rows = features(4)
    logits = native(arrays, ids).logits(rows, 3)
    wanted = slow_logits(arrays, rows, OUTPUT, ids)
    assert logits.shape == (4, 3, V)
    drafted = logits if ids is None else logits[..., ids]
    # Weights in 8 bits, or the target's 4 bits with activations of 8, of about 3 times the spread
    # in range: a product errs by about 6 / 255 / sqrt(12), 0.7 % of its spread, and up to four of
    # them follow each other.
    error = float(np.sqrt(np.mean((drafted - wanted) ** 2)))
    assert error < 0.02 * float(wanted.std())
    if ids is not None:
        others = np.delete(logits, ids, axis=-1)
        assert np.all(others == -np.inf)


@pytest.mark.parametrize("ids", [None, IDS], ids=["all tokens", "some tokens"])
def test_the_best_tokens_are_those_of_the_logits(ids: IntArray | None) -> None:
    heads = native(random_heads(D), ids)
    rows = features(3)
    logits = heads.logits(rows, 2)
    for row, top in zip(logits, heads.top(rows, 2, 4), strict=True):
        assert top.ids.tolist() == np.argsort(-row, axis=-1, kind="stable")[:, :4].tolist()
        np.testing.assert_array_equal(top.logits, np.take_along_axis(row, top.ids, axis=-1))


def test_more_tokens_than_there_are_means_all_of_them() -> None:
    (top,) = native(random_heads(D), IDS).top(features(1), 1, 10)
    assert sorted(top.ids[0].tolist()) == IDS.tolist()


def test_what_a_row_says_does_not_depend_on_the_others() -> None:
    heads = native(random_heads(D, num_layers=2))
    rows = features(7)
    together = heads.logits(rows, 3)
    for index in range(7):
        alone = heads.logits(rows[index : index + 1], 3)[0]
        np.testing.assert_array_equal(alone, together[index])
        fewer = heads.logits(rows[index : index + 1], 1)[0]
        np.testing.assert_array_equal(fewer[0], together[index, 0])


def test_padding_of_the_target_is_never_drafted() -> None:
    few = native(random_heads(D), IDS, vocab_size=9)
    assert few.logits(features(1), 1).shape == (1, 1, 9)
    (top,) = few.top(features(1), 1, 10)
    assert sorted(top.ids[0].tolist()) == [1, 2, 5, 8]
    assert native(random_heads(D), vocab_size=9).logits(features(1), 1).shape == (1, 1, 9)
    own = native(random_heads(D, num_rows=V), vocab_size=9)
    assert own.logits(features(1), 1).shape == (1, 1, 9)


@pytest.mark.parametrize("name", ["0.0.linear.weight", "1.0.linear.bias"])
def test_weights_that_are_no_numbers_are_refused(name: str) -> None:
    arrays = random_heads(D)
    arrays[name].flat[3] = np.nan
    with pytest.raises(CheckpointError, match=name):
        native(arrays)


def test_heads_of_mixed_types_are_refused() -> None:
    weights = weights_of(random_heads(D), D, V)
    first = weights.blocks[0][0]
    halves = replace(
        first.weight, quantization="F16", data=first.weight.dequantize().astype(np.float16)
    )
    blocks = ((replace(first, weight=halves),), *weights.blocks[1:])
    with pytest.raises(CheckpointError, match="convert them to one"):
        NativeMedusa(replace(weights, blocks=blocks), ENGINE, WEIGHTS.head, V)
