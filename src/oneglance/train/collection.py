"""Collected answers as a data set: which are held out, in which order the others come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.errors import ParameterError
from oneglance.train.answers import COLUMNS, Shard, read_manifest, read_shard, shard_folders
from oneglance.train.prompts import KEY_BITS
from oneglance.types import IntArray

MIN_TOKENS = 3
"""Shortest answer with its prompt from which something can be learned: a pair and what follows."""


@dataclass(frozen=True)
class Item:
    """One answer of a collection; fields as of `answering.Answer`, arrays mapped."""

    tokens: NDArray[np.int32]
    hidden: NDArray[np.float16]
    prompt_length: int
    normalizers: NDArray[np.float32]
    best: NDArray[np.int32]


class Collection:
    """The answers of one or several folders. In memory is only where each lies.

    Attributes:
        manifest: what they were made from; `more_answers` are the manifests of further folders.
        hidden_layers: whose states there are, in order.
        lengths: [A] tokens of each answer with its prompt.
        is_greedy: [A].
    """

    def __init__(self, folder: Path, *more: Path) -> None:
        """Maps the shards.

        Args:
            folder: of a collection.
            more: further ones, of the same target and states.

        Raises:
            CheckpointError: a folder has no sound collection.
            ParameterError: there are no answers in one, or two do not fit each other.
        """
        self.manifest = read_manifest(folder)
        self.hidden_layers: tuple[int, ...] = tuple(self.manifest["hidden_layers"])
        self._shards: list[Shard] = []
        tables = [self._map(folder)]
        others = []
        for each in more:
            others.append(read_manifest(each))
            _check_like(self.manifest, others[-1], folder, each)
            tables.append(self._map(each))
        if others:
            self.manifest["more_answers"] = others
        self._table = np.concatenate(tables)
        self._keys = self._column("key")
        self.lengths = self._column("length")
        self.is_greedy = self._column("is_greedy") == 1

    def __len__(self) -> int:
        return len(self._table)

    def item(self, index: int) -> Item:
        """One answer."""
        shard = self._shards[self._table[index, 0]]
        start, length, prompt_length, first = self._table[index, -4:].tolist()
        num_chosen = length - prompt_length
        return Item(
            tokens=shard.tokens[start : start + length],
            hidden=shard.hidden[start : start + length - 1],
            prompt_length=prompt_length,
            normalizers=shard.normalizers[first : first + num_chosen],
            best=shard.best[first : first + num_chosen],
        )

    def split(self, held_out_share: float) -> tuple[IntArray, IntArray]:
        """Answers to train on and answers held out; all answers to a prompt are on one side.

        Args:
            held_out_share: of the prompts, about.

        Raises:
            ParameterError: one of the sides would be empty.
        """
        is_held_out = self._keys < held_out_share * 2.0**KEY_BITS
        is_long = self.lengths >= MIN_TOKENS
        train, held_out = (
            np.flatnonzero(~is_held_out & is_long),
            np.flatnonzero(is_held_out & is_long),
        )
        if len(train) == 0 or len(held_out) == 0:
            raise ParameterError(
                f"Of {len(self)} answers {len(held_out)} are held out and {len(train)} left to "
                "train on; collect more, or hold out another share."
            )
        return train, held_out

    def token_counts(self, items: IntArray, vocab_size: int) -> IntArray:
        """[V] how often each token occurs in the answers, prompts excluded."""
        counts = np.zeros(vocab_size, dtype=np.int64)
        for index in items.tolist():
            item = self.item(index)
            counts += np.bincount(item.tokens[item.prompt_length :], minlength=vocab_size)
        return counts

    def _map(self, folder: Path) -> NDArray[np.int64]:
        """Maps the shards of a folder; where its answers lie, by job."""
        rows = []
        for each in shard_folders(folder):
            shard = read_shard(each)
            rows.append(np.insert(shard.table, 0, len(self._shards), axis=1))
            self._shards.append(shard)
        if not rows:
            raise ParameterError(f"There are no answers in {str(folder)!r}; collect some first.")
        table = np.concatenate(rows)
        # The order of jobs does not depend on when a run was stopped; that of shards does.
        ordered: NDArray[np.int64] = table[np.argsort(table[:, 1 + COLUMNS.index("job")])]
        return ordered

    def _column(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self._table[:, 1 + COLUMNS.index(name)]
        return column


def _check_like(
    first: Mapping[str, Any], other: Mapping[str, Any], folder: Path, more: Path
) -> None:
    for name in ("target", "hidden_layers"):
        if first[name] != other[name]:
            raise ParameterError(
                f"The answers in {str(more)!r} have {name} = {other[name]!r}, those in "
                f"{str(folder)!r} {first[name]!r}; learn from answers that agree in it."
            )


def batches(
    lengths: IntArray, items: IntArray, batch_tokens: int, max_length: int, seed: Sequence[int]
) -> list[IntArray]:
    """Groups of items of like length, in random order; a function of the arguments alone.

    Args:
        lengths: [A] of all answers.
        items: which to use.
        batch_tokens: most tokens in a group, padding included (one item may have more).
        max_length: longer ones are cut to this.
        seed: of the order, such as (seed, epoch).
    """
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(items)
    cut = np.minimum(lengths[shuffled], max_length)
    ordered = shuffled[np.argsort(cut, kind="stable")]
    groups: list[IntArray] = []
    start = 0
    for end in range(1, len(ordered) + 1):
        is_last = end == len(ordered)
        longest = 0 if is_last else min(int(lengths[ordered[end]]), max_length)
        if is_last or (end + 1 - start) * longest > batch_tokens:
            groups.append(ordered[start:end])
            start = end
    return [groups[index] for index in rng.permutation(len(groups)).tolist()]


def frequent_tokens(counts: IntArray, size: int) -> IntArray:
    """The `size` most frequent tokens, in ascending order; ties go to the lowest id.

    Args:
        counts: [V] of each token.
        size: at least 1; the whole vocabulary if it is no larger.
    """
    order = np.argsort(-counts, kind="stable")
    chosen: IntArray = np.sort(order[:size])
    return chosen
