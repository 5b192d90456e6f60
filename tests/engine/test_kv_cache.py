"""Capacity, sharing and rollback of the cache, seen through the engine."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import CapacityError, ParameterError
from tests.engine.passes import append, opened, random_tokens, scratch, tree
from tests.engine.random_models import random_model


def make_engine(page_size: int = 4, num_pages: int | None = None) -> ReferenceEngine:
    return ReferenceEngine(
        *random_model(21, context_length=40), EngineConfig(page_size=page_size, num_pages=num_pages)
    )


def test_positions_beyond_the_context_are_refused_before_anything_changes() -> None:
    engine = make_engine()
    first, second = opened(engine, random_tokens(0, 38)), engine.open()
    in_flight = TreeRows.chain(second, [4, 5])
    engine.forward(Batch((in_flight,)))
    with pytest.raises(
        CapacityError, match="would reach 41 positions, but the model's context has 40"
    ):
        engine.forward(Batch((TreeRows.chain(second, [1]), TreeRows.chain(first, [1, 2, 3]))))
    engine.commit(second, [0, 1])  # still in flight, so the failed pass touched nothing
    assert engine.length(second) == 2
    # Two levels fit, however many rows they have.
    engine.forward(Batch((tree(first, [1, 2, 3, 4, 5], [-1, 0, 0, 0, 0]),)))
    engine.commit(first, [0, 3])
    assert engine.length(first) == 40


def test_an_exhausted_pool_is_refused_before_anything_changes() -> None:
    engine = make_engine(num_pages=3)
    first = opened(engine, [1, 2, 3, 4, 5])
    second = opened(engine, [6])
    engine.forward(Batch((TreeRows.chain(second, [7]),)))
    too_much = Batch((TreeRows.chain(second, [8]), TreeRows.chain(first, [9] * 4)))
    with pytest.raises(CapacityError, match="needs 1 more pages of 4 positions, but only 0 of the"):
        engine.forward(too_much)
    engine.commit(second, [0])
    assert np.array_equal(append(engine, second, [3]), scratch(make_engine(), [6, 7, 3])[2:])
    engine.close(second)
    engine.forward(Batch((too_much.trees[1],)))


def test_copying_a_shared_page_counts_against_the_pool() -> None:
    engine = make_engine(num_pages=2)
    trunk = opened(engine, [1, 2])
    branches = [engine.fork(trunk), engine.fork(trunk)]
    engine.forward(Batch((TreeRows.chain(branches[0], [3]),)))
    with pytest.raises(CapacityError, match="needs 1 more pages"):
        engine.forward(Batch((TreeRows.chain(branches[1], [3]),)))
    engine.close(trunk)
    # Now the shared page has one holder left and needs no copy.
    logits = engine.forward(Batch((TreeRows.chain(branches[1], [3]),))).logits[0]
    assert np.array_equal(logits, scratch(make_engine(), [1, 2, 3])[2:])


def test_closing_returns_pages() -> None:
    engine = make_engine(num_pages=2)
    for _ in range(5):
        engine.close(opened(engine, random_tokens(1, 8)))


def test_fork_shares_the_committed_prefix_only() -> None:
    engine = make_engine()
    trunk = opened(engine, [1, 2, 3, 4, 5])
    engine.forward(Batch((tree(trunk, [6, 7, 8], [-1, 0, 0]),)))
    branch = engine.fork(trunk)
    assert engine.length(branch) == 5
    with pytest.raises(AssertionError, match="no rows are in flight"):
        engine.commit(branch, [0])
    # The trunk's rows stay in flight beside the fork, in a page that both hold.
    branched = append(engine, branch, [9, 10])
    engine.commit(trunk, [0, 2])
    assert np.array_equal(
        append(engine, trunk, [11]), scratch(engine, [1, 2, 3, 4, 5, 6, 8, 11])[7:]
    )
    assert np.array_equal(branched, scratch(engine, [1, 2, 3, 4, 5, 9, 10])[5:])


def test_truncating_below_a_shared_page_leaves_the_other_holder_whole() -> None:
    engine = make_engine()
    prompt = random_tokens(2, 11)
    trunk = opened(engine, prompt)
    branch = engine.fork(trunk)
    engine.truncate(trunk, 5)
    append(engine, trunk, random_tokens(3, 8))
    assert np.array_equal(append(engine, branch, [4]), scratch(engine, [*prompt, 4])[11:])


def test_a_fork_outlives_its_source() -> None:
    engine = make_engine()
    prompt = random_tokens(4, 6)
    trunk = opened(engine, prompt)
    branch = engine.fork(trunk)
    engine.close(trunk)
    opened(engine, random_tokens(5, 20))
    assert np.array_equal(append(engine, branch, [4]), scratch(engine, [*prompt, 4])[6:])


def test_rows_that_are_no_path_are_a_bug() -> None:
    engine = make_engine()
    sequence = engine.open()
    batch = Batch((tree(sequence, [1, 2, 3], [-1, 0, 0]),))
    engine.forward(batch)
    for rows in ([1], [0, 1, 2], [0, 0]):
        with pytest.raises(AssertionError, match="rows are no path"):
            engine.commit(sequence, rows)
    engine.commit(sequence, [])
    assert engine.length(sequence) == 0
    with pytest.raises(AssertionError, match="no rows are in flight"):
        engine.commit(sequence, [0])


def test_closed_sequences_are_refused_everywhere() -> None:
    engine = make_engine()
    sequence = engine.open()
    engine.close(sequence)
    refused = "Sequence 0 is not open"
    with pytest.raises(ParameterError, match=refused):
        engine.forward(Batch((TreeRows.chain(sequence, [1]),)))
    with pytest.raises(ParameterError, match=refused):
        engine.commit(sequence, [])
    with pytest.raises(ParameterError, match=refused):
        engine.truncate(sequence, 0)
    for call in (engine.fork, engine.close, engine.length):
        with pytest.raises(ParameterError, match=refused):
            call(sequence)
