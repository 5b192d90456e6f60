"""Small random Medusa heads: weights by name, as every writer has them, and what they say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oneglance.types import Float32Array, Float64Array, IntArray

Arrays = dict[str, Float32Array]


def random_heads(
    hidden_size: int,
    num_heads: int = 3,
    num_layers: int = 1,
    num_rows: int | None = None,
    seed: int = 0,
) -> Arrays:
    """Heads of random weights.

    Args:
        hidden_size: D.
        num_heads: H.
        num_layers: blocks of a head.
        num_rows: of the output matrix of each head; None: they have none.
        seed: other weights.
    """
    generator = np.random.default_rng(seed)

    def normal(*shape: int) -> Float32Array:
        spread = 1.5 / np.sqrt(shape[-1])
        return (spread * generator.standard_normal(shape)).astype(np.float32)

    arrays: Arrays = {}
    for head in range(num_heads):
        for layer in range(num_layers):
            arrays[f"{head}.{layer}.linear.weight"] = normal(hidden_size, hidden_size)
            arrays[f"{head}.{layer}.linear.bias"] = normal(hidden_size)
        if num_rows is not None:
            arrays[f"{head}.{num_layers}.weight"] = normal(num_rows, hidden_size)
    return arrays


def slow_logits(
    arrays: Mapping[str, Float32Array],
    features: Float32Array,
    output: Float32Array | None = None,
    ids: IntArray | None = None,
) -> Float64Array:
    """Logits [R, H, V_d] in float64, by the definition.

    Args:
        arrays: by name.
        features: [R, D].
        output: the target's matrix, for heads without one.
        ids: rows of it that are used; None: all.
    """
    names = [name.split(".") for name in arrays]
    num_heads = 1 + max(int(parts[0]) for parts in names)
    num_layers = 1 + max(int(parts[1]) for parts in names if parts[2] == "linear")
    every: list[Float64Array] = []
    for head in range(num_heads):
        states = features.astype(np.float64)
        for layer in range(num_layers):
            prefix = f"{head}.{layer}.linear"
            moved = states @ arrays[f"{prefix}.weight"].T.astype(np.float64)
            moved += arrays[f"{prefix}.bias"]
            states = states + moved / (1 + np.exp(-moved))
        matrix = arrays.get(f"{head}.{num_layers}.weight")
        if matrix is None:
            assert output is not None
            matrix = output if ids is None else output[ids]
        every.append(states @ matrix.T.astype(np.float64))
    return np.stack(every, axis=1)
