"""Small random Medusa heads: weights by name, as every writer has them, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oneglance.checkpoints.base import Tensor
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.heads.medusa import MedusaWeights, medusa_weights
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
        values: Float64Array = spread * generator.standard_normal(shape)
        return values.astype(np.float32)

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


def weights_of(
    arrays: Arrays, hidden_size: int, vocab_size: int, ids: IntArray | None = None
) -> MedusaWeights:
    """Heads as a file would have them, over some tokens of the target; None: over all."""
    tensors = {name: Tensor(name, a.shape, "F32", a) for name, a in arrays.items()}
    if ids is not None:
        offsets = ids - np.arange(len(ids))
        tensors["d2t"] = Tensor("d2t", offsets.shape, "I64", offsets)
    return medusa_weights(tensors, hidden_size, vocab_size)


def fitted_heads(
    engine: Engine, texts: Sequence[Sequence[int]], num_heads: int = 3, certainty: float = 12.0
) -> MedusaWeights:
    """Heads that have learned a few texts by heart, in closed form, and guess from that.

    The residual blocks are zero; each output matrix is the ridge regression from the target's
    final states to the tokens k + 2 places on, over the tokens of the texts.

    Args:
        engine: the target's.
        texts: token ids.
        num_heads: H.
        certainty: logit of a token that is thought right.
    """
    config = engine.config
    states = [_final_states(engine, text) for text in texts]
    ids = np.unique(np.concatenate([np.asarray(text) for text in texts]))
    arrays: Arrays = {}
    for head in range(num_heads):
        shift = head + 2
        rows = np.concatenate([s[:-shift] for s in states]).astype(np.float64)
        tokens = np.concatenate([np.asarray(text)[shift:] for text in texts])
        wanted = (tokens[:, None] == ids).astype(np.float64)
        gram = rows @ rows.T
        ridge = 0.01 * np.trace(gram) / len(gram) * np.eye(len(gram))
        matrix = certainty * wanted.T @ np.linalg.solve(gram + ridge, rows)
        size = config.hidden_size
        arrays[f"{head}.0.linear.weight"] = np.zeros((size, size), np.float32)
        arrays[f"{head}.0.linear.bias"] = np.zeros(size, np.float32)
        arrays[f"{head}.1.weight"] = matrix.astype(np.float32)
    return weights_of(arrays, config.hidden_size, config.vocab_size, ids)


def _final_states(engine: Engine, text: Sequence[int]) -> Float32Array:
    layer, sequence = engine.config.num_layers, engine.open()
    rows = TreeRows.chain(sequence, text, wants_logits=False)
    states = engine.forward(Batch((rows,), (layer,))).hidden[layer][0]
    engine.close(sequence)
    return states
