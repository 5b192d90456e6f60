"""An EAGLE head on the kernels computes what the same head in PyTorch computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.types import Float32Array, IntArray
from tests.heads.random_heads import VARIANTS, Pair, Variant, make_pair

NUM_COLUMNS, NUM_STEPS = 9, 3
FLOATS = 2e-5
"""Of sums of a hundred float32 products in another order."""
EIGHT_BITS = 0.06
"""Relative to the logits' spread: weights and activations in 8 bits are off by some 0.4 % each, in
a dozen products one after another; the worst of the cases below is 0.03."""


def spread(pair: Pair, logits: Float32Array) -> Float32Array:
    """From the draft vocabulary to the target's."""
    if pair.head.target_ids is None:
        return logits
    wide = np.full((*logits.shape[:-1], pair.config.vocab_size), -np.inf, dtype=np.float32)
    wide[..., pair.head.target_ids] = logits
    return wide


def inputs(pair: Pair, seed: int = 0) -> tuple[Float32Array, IntArray]:
    """Random features and tokens of some columns."""
    rng = np.random.default_rng(seed)
    size = (NUM_COLUMNS, pair.head.config.feature_size)
    tokens = rng.integers(0, pair.config.vocab_size, NUM_COLUMNS)
    return rng.standard_normal(size).astype(np.float32), tokens


def oracle(pair: Pair, features: Float32Array, tokens: IntArray) -> list[Float32Array]:
    """The logits [T, V] of each step."""
    with torch.no_grad():
        outputs = pair.module(
            torch.from_numpy(features)[None], torch.from_numpy(tokens)[None], NUM_STEPS
        )
        return [spread(pair, pair.module.logits(each)[0].numpy()) for each in outputs]


def drafted(pair: Pair, features: Float32Array, tokens: IntArray, column: int) -> Float32Array:
    """The logits [steps, V] of a draft at a column, made of the text's own tokens."""
    engine, sequence = pair.engine, pair.engine.open()
    known = tokens[: column + 1].tolist()
    engine.offer(sequence, features[: column + 1])
    if isinstance(engine, ParallelEagleEngine):
        engine.expect(sequence, NUM_STEPS)
    rows = []
    for step in range(NUM_STEPS):
        path = [*known, *tokens[column + 1 : column + 1 + step].tolist()]
        wanted = np.arange(len(path)) == len(path) - 1
        parents = np.arange(len(path)) - 1
        kept = 0 if step == 0 else len(path) - 1
        tree = TreeRows(sequence, np.array(path), parents, wanted, kept)
        rows.append(engine.forward(Batch((tree,))).logits[0][0])
    engine.close(sequence)
    return np.array(rows)


def error(ours: Float32Array, theirs: Float32Array) -> float:
    """Largest difference, relative to the spread of what can be drafted."""
    finite = np.isfinite(theirs)
    assert np.array_equal(np.isfinite(ours), finite)
    return float(np.abs(ours[finite] - theirs[finite]).max() / theirs[finite].std())


@pytest.mark.parametrize("variant", VARIANTS)
def test_float_weights_give_the_numbers_of_the_module(tmp_path: Path, variant: Variant) -> None:
    pair = make_pair(tmp_path, variant)
    features, tokens = inputs(pair)
    steps = oracle(pair, features, tokens)
    for column in (0, 1, 5):
        wanted = np.array([step[column] for step in steps])
        assert error(drafted(pair, features, tokens, column), wanted) < FLOATS


@pytest.mark.parametrize("variant", VARIANTS)
def test_packed_weights_come_near(tmp_path: Path, variant: Variant) -> None:
    pair = make_pair(tmp_path, variant, weights="auto")
    features, tokens = inputs(pair)
    wanted = np.array([step[5] for step in oracle(pair, features, tokens)])
    assert FLOATS < error(drafted(pair, features, tokens, 5), wanted) < EIGHT_BITS
