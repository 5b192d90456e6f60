"""Collected answers as a data set: the split, the order, the vocabulary, the windows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from oneglance.errors import ParameterError
from oneglance.train.batch import make_batch
from oneglance.train.collection import batches, frequent_tokens
from tests.train.conftest import Answered


def test_all_answers_to_a_prompt_are_on_one_side(answered: Answered) -> None:
    collection = answered.collection
    train, held_out = collection.split(0.3)
    assert sorted([*train, *held_out]) == list(range(len(collection)))
    assert 4 < len(held_out) < 25
    keys = collection._keys
    assert not set(keys[train]) & set(keys[held_out])
    more_train, more_held_out = collection.split(0.5)
    assert set(held_out) < set(more_held_out)  # a larger share takes nothing back
    assert set(more_train) < set(train)


def test_a_split_that_leaves_nothing_is_refused(answered: Answered) -> None:
    with pytest.raises(ParameterError, match="0 are held out"):
        answered.collection.split(1e-9)


def test_an_epoch_has_each_item_once_and_fits_its_limit() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 90, 200)
    items = np.flatnonzero(lengths % 5)
    groups = batches(lengths, items, batch_tokens=256, max_length=64, seed=[0, 1])
    assert sorted(np.concatenate(groups)) == items.tolist()
    cut = np.minimum(lengths, 64)
    assert all(len(group) * cut[group].max() <= 256 for group in groups)
    assert len(groups) < 1.2 * cut[items].sum() / 256 + 2  # little of it is padding
    again = batches(lengths, items, batch_tokens=256, max_length=64, seed=[0, 1])
    assert [g.tolist() for g in groups] == [g.tolist() for g in again]
    other = batches(lengths, items, batch_tokens=256, max_length=64, seed=[0, 2])
    assert [g.tolist() for g in groups] != [g.tolist() for g in other]


def test_the_most_frequent_tokens_are_chosen() -> None:
    counts = np.array([0, 5, 2, 5, 0, 2, 9])
    assert frequent_tokens(counts, 3).tolist() == [1, 3, 6]
    assert frequent_tokens(counts, 4).tolist() == [1, 2, 3, 6]
    assert frequent_tokens(counts, 99).tolist() == list(range(7))


def test_counts_are_of_answers_alone(answered: Answered) -> None:
    collection = answered.collection
    items = np.array([0, 5])
    expected = np.zeros(300, dtype=int)
    for index in items:
        item = collection.item(index)
        np.add.at(expected, item.tokens[item.prompt_length :], 1)
    assert np.array_equal(collection.token_counts(items, 300), expected)


def test_a_window_keeps_the_end_and_what_belongs_to_it(answered: Answered) -> None:
    collection = answered.collection
    order = np.argsort(collection.lengths)
    items = [collection.item(int(index)) for index in (order[0], order[-1])]
    whole = make_batch(items, max_length=10**6)
    width = 12
    batch = make_batch(items, max_length=width)
    assert batch.tokens.shape == (2, width)
    assert whole.tokens.shape[1] == len(items[1].tokens)
    long = batch.tokens[1].tolist()
    assert long == items[1].tokens[-width:].tolist()
    for name in ("is_answer", "normalizers", "best"):
        assert getattr(batch, name)[1].tolist() == getattr(whole, name)[1, -width:].tolist()
    assert np.array_equal(batch.hidden[1].numpy(), items[1].hidden[1 - width :])


def test_what_is_padding_is_nothing_to_predict(answered: Answered) -> None:
    collection = answered.collection
    items = [collection.item(index) for index in range(6)]
    batch = make_batch(items, max_length=10**6)
    for row, item in enumerate(items):
        where = np.flatnonzero(batch.is_answer[row].numpy())
        assert where.tolist() == list(range(item.prompt_length, len(item.tokens)))
        assert all(b == a + 1 for a, b in pairwise(where))
        assert batch.best[row, where].tolist() == item.best.tolist()
        assert np.array_equal(batch.normalizers[row, where].numpy(), item.normalizers)
