"""A planned pass as the arrays that the kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from oneglance import _native
from oneglance.engine.pages import PageId
from oneglance.engine.pass_plan import PassPlan, TreePlan

Int32Array = NDArray[np.int32]


def describe_pass(
    plan: PassPlan, pages: Sequence[Sequence[PageId]], page_size: int
) -> _native.Pass:
    """Lays out a pass for the kernels.

    Args:
        plan: what to evaluate.
        pages: for each tree of the plan, the pages of its prefix and its rows.
        page_size: positions on a page.
    """
    ancestors = [tree_ancestors(tree) for tree in plan.trees]
    sizes = [tree.positions - tree.prefix_length + 1 for tree in plan.trees]
    return _native.Pass(
        page_size=page_size,
        positions=plan.positions.astype(np.int32),
        first_rows=_int32([tree.rows.start for tree in plan.trees]),
        row_counts=_int32([len(tree.positions) for tree in plan.trees]),
        prefix_lengths=_int32([tree.prefix_length for tree in plan.trees]),
        kept_counts=_int32([tree.tree.num_kept for tree in plan.trees]),
        page_starts=_int32([0, *accumulate(len(held) for held in pages)]),
        pages=_int32(list(chain.from_iterable(pages))),
        ancestor_starts=_int32([0, *accumulate(np.concatenate(sizes).tolist())]),
        ancestors=ancestors[0] if len(ancestors) == 1 else np.concatenate(ancestors),
    )


def tree_ancestors(tree: TreePlan) -> Int32Array:
    """For each evaluated row of a tree the rows on its path, the first level first, itself last.

    The paths lie one after another; that of a row has as many entries as the row is deep.
    """
    num_rows, num_kept = len(tree.paths), tree.tree.num_kept
    is_chain = all(path.num_kept == row for row, path in enumerate(tree.paths))
    if is_chain and num_kept == 0:
        return _chain_ancestors(num_rows)
    path: list[int] = []
    paths: list[int] = []
    for row, change in enumerate(tree.paths):
        path[change.num_kept :] = change.rows
        if row >= num_kept:
            paths += path
    return _int32(paths)


@lru_cache(maxsize=16)
def _chain_ancestors(num_rows: int) -> Int32Array:
    """Those of a chain, read-only: most passes are chains of the same few lengths."""
    ancestors = np.tril_indices(num_rows)[1].astype(np.int32)
    ancestors.setflags(write=False)
    return ancestors


def _int32(values: Sequence[int]) -> Int32Array:
    return np.asarray(values, dtype=np.int32)
