"""Logits of a head on the kernels beside those of the same head in PyTorch."""

from __future__ import annotations

import numpy as np
import torch

from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.types import Float32Array, IntArray
from tests.heads.random_heads import Pair

NUM_COLUMNS, NUM_STEPS = 9, 3
FLOATS = 2e-5
"""Of sums of a hundred float32 products in another order."""


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


def drafted(
    engine: EagleEngine, features: Float32Array, tokens: IntArray, column: int
) -> Float32Array:
    """The logits [steps, V] of a draft at a column, made of the text's own tokens."""
    sequence = engine.open()
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
