"""Attention written out in numpy, one float operation at a time, and what its tests feed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oneglance import _native

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]


def ints(values: Sequence[int] | NDArray[np.int64] | Ints) -> Ints:
    return np.asarray(values, dtype=np.int32)


def assert_same_bits(actual: Floats, expected: Floats) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


def sum_in_sixteen(values: Floats) -> Floats:
    """Sum along the last axis: element i to partial sum i % 16, then a tree of halves."""
    padding = -values.shape[-1] % 16
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, padding)])
    partial = np.zeros((*values.shape[:-1], 16), dtype=np.float32)
    for block in np.moveaxis(padded.reshape(*values.shape[:-1], -1, 16), -2, 0):
        partial = partial + block
    for width in (8, 4, 2, 1):
        partial = partial[..., :width] + partial[..., width : 2 * width]
    total: Floats = partial[..., 0]
    return total


def exp(x: Floats) -> Floats:
    """The kernels' exponential function, elementwise; tested on its own."""
    return _native.exp(np.ascontiguousarray(x).reshape(-1)).reshape(x.shape)


def attend_row(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Attention of one row with the specified order of every operation.

    Args:
        query: [heads, head_dim].
        keys: [kv_heads, P, head_dim] of the positions that the row sees, in ascending order.
        values: the same.
    """
    group = len(query) // len(keys)
    keys, values = np.repeat(keys, group, axis=0), np.repeat(values, group, axis=0)
    scaled = query * np.float32(query.shape[1] ** -0.5)
    scores = np.zeros(keys.shape[:2], dtype=np.float32)
    for d in range(query.shape[1]):
        scores = scores + scaled[:, d, None] * keys[:, :, d]
    weights = exp(scores - scores.max(axis=1, keepdims=True))
    mixed = np.zeros(query.shape, dtype=np.float32)
    for p in range(keys.shape[1]):
        mixed = mixed + weights[:, p, None] * values[:, p]
    result: Floats = mixed / sum_in_sixteen(weights)[:, None]
    return result


def attend_row_in_float64(query: Floats, keys: Floats, values: Floats) -> Doubles:
    """The definition, with numpy's own sums in float64."""
    group = len(query) // len(keys)
    k, v = (np.repeat(x.astype(np.float64), group, axis=0) for x in (keys, values))
    scores = np.einsum("hd,hpd->hp", query.astype(np.float64), k) / np.sqrt(query.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mixed: Doubles = np.einsum("hp,hpd->hd", weights, v)
    return mixed


def path_to(parents: Sequence[int], row: int) -> list[int]:
    """Rows from the first level down to `row`."""
    path: list[int] = []
    while row >= 0:
        path.insert(0, row)
        row = parents[row]
    return path


@dataclass(frozen=True)
class Tree:
    """Rows of one sequence behind its prefix; `pages` hold prefix and rows.

    The first `num_kept` rows are in flight already; a pass evaluates the others.
    """

    prefix_length: int
    parents: list[int]
    pages: list[int]
    num_kept: int = 0

    @property
    def rows(self) -> range:
        return range(self.num_kept, len(self.parents))

    @property
    def positions(self) -> list[int]:
        return [self.prefix_length + len(path_to(self.parents, row)) - 1 for row in self.rows]


def make_pass(page_size: int, trees: Sequence[Tree]) -> _native.Pass:
    """Describes the trees as one pass."""
    counts = [len(tree.rows) for tree in trees]
    paths = [path_to(tree.parents, row) for tree in trees for row in tree.rows]
    return _native.Pass(
        page_size=page_size,
        positions=ints([position for tree in trees for position in tree.positions]),
        first_rows=ints(np.cumsum([0, *counts])[:-1]),
        row_counts=ints(counts),
        prefix_lengths=ints([tree.prefix_length for tree in trees]),
        kept_counts=ints([tree.num_kept for tree in trees]),
        page_starts=ints(np.cumsum([0, *(len(tree.pages) for tree in trees)])),
        pages=ints([page for tree in trees for page in tree.pages]),
        ancestor_starts=ints(np.cumsum([0, *map(len, paths)])),
        ancestors=ints([row for path in paths for row in path]),
    )


def chain(prefix_length: int, rows: int, pages: list[int]) -> Tree:
    return Tree(prefix_length, list(range(-1, rows - 1)), pages)


def make_workspace(runtime: _native.Runtime, head_dim: int, context: int = 1) -> _native.Workspace:
    """A workspace with rotary tables of base 10,000."""
    half = head_dim // 2
    frequencies = 10_000.0 ** (-np.arange(half) / half)
    angles = np.arange(context)[:, None] * frequencies
    return _native.Workspace(
        runtime, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    )


def rounded(x: Floats, is_half: bool) -> Floats:
    """What a cache of that type keeps of x."""
    return x.astype(np.float16).astype(np.float32) if is_half else x
