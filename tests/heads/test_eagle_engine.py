"""An EAGLE head on the kernels computes what the same head in PyTorch computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oneglance.drafters.eagle import EagleDrafter
from tests.heads.comparison import FLOATS, drafted, error, inputs, oracle
from tests.heads.random_heads import VARIANTS, Variant, make_pair

EIGHT_BITS = 0.06
"""Relative to the logits' spread: weights and activations in 8 bits are off by some 0.4 % each, in
a dozen products one after another; the worst of the cases below is 0.03."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_float_weights_give_the_numbers_of_the_module(tmp_path: Path, variant: Variant) -> None:
    pair = make_pair(tmp_path, variant)
    features, tokens = inputs(pair)
    steps = oracle(pair, features, tokens)
    for column in (0, 1, 5):
        wanted = np.array([step[column] for step in steps])
        assert error(drafted(pair.engine, features, tokens, column), wanted) < FLOATS


@pytest.mark.parametrize("variant", VARIANTS)
def test_packed_weights_come_near(tmp_path: Path, variant: Variant) -> None:
    pair = make_pair(tmp_path, variant, weights="auto")
    features, tokens = inputs(pair)
    wanted = np.array([step[5] for step in oracle(pair, features, tokens)])
    assert FLOATS < error(drafted(pair.engine, features, tokens, 5), wanted) < EIGHT_BITS


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_pass_reads_what_the_head_has_and_its_output_matrix(
    tmp_path: Path, variant: Variant
) -> None:
    """By this the price of a draft is guessed before any was timed."""
    pair = make_pair(tmp_path, variant)
    tensors = {name: tensor.dequantize() for name, tensor in pair.head.tensors.items()}
    shapes = [each.shape for name, each in tensors.items() if name != "embed_tokens.weight"]
    if "lm_head.weight" not in tensors:
        ids = pair.head.target_ids
        width = pair.config.vocab_size if ids is None else len(ids)
        shapes.append((width, pair.config.hidden_size))
    read = sum(4 * _padded(shape[0]) * shape[1] for shape in shapes if len(shape) == 2)
    assert pair.engine.pass_bytes == read
    drafter = EagleDrafter(pair.engine, pair.config.vocab_size)
    assert drafter.own_bytes == pair.engine.pass_bytes


def _padded(outputs: int) -> int:
    """Matrices are packed in tiles of 32 outputs."""
    return -(-outputs // 32) * 32
