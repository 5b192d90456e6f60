"""Short ways to evaluate tokens with an engine in the tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from oneglance.engine.base import Batch, Engine, SequenceId, TreeRows
from oneglance.types import Float32Array


def append(
    engine: Engine, sequence: SequenceId, tokens: Sequence[int], chunk: int = 64
) -> Float32Array:
    """Commits tokens to a sequence, `chunk` a pass; logits [N, V] of all of them."""
    parts = []
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        parts.append(engine.forward(Batch((TreeRows.chain(sequence, part),))).logits[0])
        engine.commit(sequence, range(len(part)))
    return np.concatenate(parts)


def opened(engine: Engine, tokens: Sequence[int], chunk: int = 64) -> SequenceId:
    """A new sequence with these tokens committed."""
    sequence = engine.open()
    if tokens:
        append(engine, sequence, tokens, chunk)
    return sequence


def scratch(engine: Engine, tokens: Sequence[int]) -> Float32Array:
    """Logits [N, V] of tokens evaluated one a pass in a sequence of their own."""
    sequence = engine.open()
    logits = append(engine, sequence, tokens, chunk=1)
    engine.close(sequence)
    return logits


def tree(sequence: SequenceId, tokens: Sequence[int], parents: Sequence[int]) -> TreeRows:
    """A tree all of whose rows want logits."""
    return TreeRows(sequence, np.array(tokens), np.array(parents), np.ones(len(tokens), np.bool_))


def path_to(parents: Sequence[int], row: int) -> list[int]:
    """Rows from the first level down to `row`."""
    path: list[int] = []
    while row >= 0:
        path.insert(0, row)
        row = parents[row]
    return path


def random_tokens(seed: int, count: int, vocab_size: int = 97) -> list[int]:
    """Uniform token ids."""
    return [int(x) for x in np.random.default_rng(seed).integers(0, vocab_size, count)]


@st.composite
def random_trees(draw: st.DrawFn, max_rows: int = 12) -> tuple[list[int], list[int]]:
    """Tokens (repeats included) and parents of a tree of any shape."""
    count = draw(st.integers(1, max_rows))
    tokens = draw(st.lists(st.integers(0, 96), min_size=count, max_size=count))
    parents = [draw(st.integers(-1, row - 1)) for row in range(count)]
    return tokens, parents
