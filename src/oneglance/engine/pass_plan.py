"""What a pass has to do, worked out and checked before any array is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oneglance.config import ModelConfig
from oneglance.engine.base import Batch, SequenceId, TreeRows
from oneglance.errors import CapacityError, ParameterError
from oneglance.types import ROOT, BoolArray, IntArray

Element = TypeVar("Element", np.int64, np.bool_)


@dataclass(frozen=True)
class RowPath:
    """How to turn the previous row's path into this row's path.

    Attributes:
        num_kept: how many first rows of the previous row's path are on this row's path too.
        rows: the rest of this row's path, itself last; indices into the tree.
    """

    num_kept: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class TreePlan:
    """One tree of a pass.

    Attributes:
        tree: its rows.
        rows: where those that are evaluated lie among all rows of the pass.
        prefix_length: committed positions before it.
        positions: [N - num_kept] absolute position of each evaluated row; siblings share one.
        paths: [N] the ancestors of each row, kept ones included, as changes from row to row.
    """

    tree: TreeRows
    rows: slice
    prefix_length: int
    positions: IntArray
    paths: tuple[RowPath, ...]


@dataclass(frozen=True)
class EvaluatedLayers:
    """Which layers of the model a pass evaluates.

    Attributes:
        num_layers: no layer from this one on.
        skipped: layers below it that are left out.
    """

    num_layers: int
    skipped: frozenset[int] = frozenset()

    def serve(self, other: EvaluatedLayers) -> bool:
        """Whether keys and values that these layers made can be read by a pass of others.

        They can by any pass that reads no further, as long as nothing was left out: they are the
        model's own then. With layers left out they are those of another model, which only a pass
        that leaves out the same can use.
        """
        if other.num_layers > self.num_layers:
            return False
        return not self.skipped or self.skipped == other.skipped


@dataclass(frozen=True)
class TopPlan:
    """How many best tokens a row is to give, 1 <= num_top <= num_ids, of ids below num_ids."""

    num_top: int
    num_ids: int


@dataclass(frozen=True)
class PassPlan:
    """All trees of a pass, their rows one after another.

    Attributes:
        trees: in the order of the batch.
        tokens: [R] ids of all rows that are evaluated.
        positions: [R] absolute positions of these rows.
        layers: which layers to evaluate.
        hidden_layers: whose hidden states to return.
        top: how many best tokens to return, of the first how many; None: all logits.
        num_summarized: make summaries of so many first logits of each row; None: none.
    """

    trees: tuple[TreePlan, ...]
    tokens: IntArray
    positions: IntArray
    layers: EvaluatedLayers
    hidden_layers: tuple[int, ...]
    top: TopPlan | None
    num_summarized: int | None = None

    @property
    def wanted(self) -> BoolArray:
        """[R] whether a row's logits are wanted."""
        return np.concatenate([_new(tree.tree, tree.tree.wants_logits) for tree in self.trees])

    @property
    def wanted_ends(self) -> IntArray:
        """For each tree but the last, how many wanted rows it and those before it have."""
        counts = [int(np.count_nonzero(tree.tree.wants_logits)) for tree in self.trees]
        return np.cumsum(counts, dtype=np.int64)[:-1]


def plan_pass(batch: Batch, config: ModelConfig, length: Callable[[SequenceId], int]) -> PassPlan:
    """Lays out a batch of at least one tree.

    Args:
        batch: what to evaluate.
        config: of the model.
        length: number of committed positions of a sequence.

    Raises:
        CapacityError: a row lies beyond the context.
        ParameterError: a token id, a layer or a sequence does not exist, or no token can be among
            the best that are asked for.
    """
    num_layers = config.num_layers if batch.num_layers is None else batch.num_layers
    _check_layers(batch, num_layers, config.num_layers)
    top = _plan_top(batch, config.vocab_size)
    trees: list[TreePlan] = []
    first_row = 0
    for tree in batch.trees:
        trees.append(_plan_tree(tree, first_row, length(tree.sequence), config))
        first_row = trees[-1].rows.stop
    return PassPlan(
        trees=tuple(trees),
        tokens=np.concatenate([_new(tree, tree.tokens) for tree in batch.trees]),
        positions=np.concatenate([plan.positions for plan in trees]),
        layers=EvaluatedLayers(num_layers, frozenset(batch.skipped_layers)),
        hidden_layers=batch.hidden_layers,
        top=top,
        num_summarized=batch.summary_vocab_size,
    )


def row_paths(parents: IntArray) -> tuple[RowPath, ...]:
    """The path from the first level to each row of a tree, as changes from row to row."""
    paths: list[list[int]] = []
    changes: list[RowPath] = []
    previous: list[int] = []
    for row, parent in enumerate(parents.tolist()):
        path = [row] if parent == ROOT else [*paths[parent], row]
        num_kept = _common_length(previous, path)
        changes.append(RowPath(num_kept, tuple(path[num_kept:])))
        paths.append(path)
        previous = path
    return tuple(changes)


def _common_length(first: list[int], second: list[int]) -> int:
    # In a chain, by far the most frequent case, the whole previous path is kept.
    if first == second[:-1]:
        return len(first)
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


def _plan_tree(tree: TreeRows, first_row: int, prefix_length: int, config: ModelConfig) -> TreePlan:
    _check_tokens(tree, config.vocab_size)
    paths = row_paths(tree.parents)
    depths = np.asarray([path.num_kept + len(path.rows) for path in paths], dtype=np.int64)
    needed = prefix_length + int(depths.max())
    if needed > config.context_length:
        raise CapacityError(
            f"Sequence {tree.sequence} would reach {needed} positions, but the model's context "
            f"has {config.context_length}; shorten the prompt or ask for fewer tokens."
        )
    rows = slice(first_row, first_row + len(tree.tokens) - tree.num_kept)
    return TreePlan(tree, rows, prefix_length, _new(tree, prefix_length + depths - 1), paths)


def _new(tree: TreeRows, values: NDArray[Element]) -> NDArray[Element]:
    """What belongs to the rows that are evaluated, of a value for each row."""
    return values[tree.num_kept :]


def _check_tokens(tree: TreeRows, vocab_size: int) -> None:
    outside = (tree.tokens < 0) | (tree.tokens >= vocab_size)
    if outside.any():
        raise ParameterError(
            f"Token id {int(tree.tokens[outside][0])} does not exist; use ids from 0 to "
            f"{vocab_size - 1}, the model's vocabulary."
        )


def _plan_top(batch: Batch, vocab_size: int) -> TopPlan | None:
    if batch.num_top is None:
        return None
    num_ids = vocab_size if batch.top_vocab_size is None else batch.top_vocab_size
    if not 1 <= num_ids <= vocab_size:
        raise ParameterError(
            f"top_vocab_size = {num_ids} cannot be used; it must be 1 to {vocab_size}, the "
            "model's vocabulary."
        )
    if batch.num_top < 1:
        raise ParameterError(f"num_top = {batch.num_top} cannot be used; it must be at least 1.")
    return TopPlan(min(batch.num_top, num_ids), num_ids)


def _check_layers(batch: Batch, num_layers: int, model_layers: int) -> None:
    if not 1 <= num_layers <= model_layers:
        raise ParameterError(
            f"num_layers = {num_layers} cannot be used; it must be 1 to {model_layers}, the "
            "layers that the model has."
        )
    for layer in batch.skipped_layers:
        if not 0 <= layer < num_layers:
            raise ParameterError(
                f"skipped_layers = {batch.skipped_layers} cannot be used; each must be 0 to "
                f"{num_layers - 1}, a layer that this pass would evaluate."
            )
    for layer in batch.hidden_layers:
        if not 0 <= layer <= num_layers:
            raise ParameterError(
                f"hidden_layers = {batch.hidden_layers} cannot be used; each must be 0 to "
                f"{num_layers}, the layers that this pass evaluates."
            )
