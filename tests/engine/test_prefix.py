"""Kept prefixes: the longest common beginning is reused, the oldest goes first, nothing leaks."""

from __future__ import annotations

import numpy as np

from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, SequenceId, TreeRows
from oneglance.engine.prefill import prefill
from oneglance.engine.prefix import PrefixStore
from oneglance.engine.reference import ReferenceEngine
from oneglance.testing import ScriptedEngine, random_script
from tests.engine.random_models import random_model

V = 5


def fed(engine: ScriptedEngine | ReferenceEngine, tokens: list[int]) -> SequenceId:
    sequence = engine.open()
    prefill(engine, sequence, tokens, chunk=2)
    return sequence


def test_reuses_the_longest_common_beginning() -> None:
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, 3)
    for tokens in ([1, 2, 3], [1, 2, 3, 4, 0], [2, 2]):
        store.keep(fed(engine, tokens), tokens)
    assert engine.length(store.open([1, 2, 3, 4, 1])) == 4
    assert engine.length(store.open([1, 2, 0])) == 2
    assert engine.length(store.open([3, 3])) == 0


def test_the_last_prompt_token_is_left_for_the_first_pass() -> None:
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, 1)
    store.keep(fed(engine, [1, 2, 3]), [1, 2, 3])
    assert engine.length(store.open([1, 2, 3])) == 2
    assert engine.length(store.open([1])) == 0


def test_the_oldest_goes_first_and_clear_lets_all_go() -> None:
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, 2)
    for token in (0, 1, 2):
        store.keep(fed(engine, [token, 4]), [token, 4])
    assert engine.num_open == 2
    lengths = [engine.length(store.open([token, 4, 4])) for token in (0, 1, 2)]
    assert lengths == [0, 2, 2]
    store.clear()
    assert engine.num_open == 3  # the three that were opened above


def test_what_a_newer_one_begins_with_goes_first() -> None:
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, 2)
    for tokens in ([4, 4], [1], [1, 2], [1, 2, 3]):
        store.keep(fed(engine, tokens), tokens)
    assert engine.num_open == 2
    assert engine.length(store.open([4, 4, 0])) == 2
    assert engine.length(store.open([1, 2, 3, 0])) == 3


def test_nothing_is_kept_without_capacity() -> None:
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, 0)
    store.keep(fed(engine, [1, 2]), [1, 2])
    assert engine.num_open == 0


def test_rows_beyond_the_answer_are_dropped() -> None:
    """A block can be accepted past the token that ended the answer."""
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, 1)
    store.keep(fed(engine, [1, 2, 3, 4]), [1, 2])
    assert engine.length(store.open([1, 2, 3, 4, 0])) == 2
    store.keep(fed(engine, [3]), [3, 2, 3])  # the last tokens of an answer are not fed yet
    assert engine.length(store.open([3, 2, 3])) == 1


def test_bits_after_a_kept_prefix_are_those_of_a_fresh_start() -> None:
    config, weights = random_model(seed=3)
    engine = ReferenceEngine(config, weights, EngineConfig(page_size=4))
    store = PrefixStore(engine, 1)
    kept = [1, 2, 3, 4, 5, 6, 7]
    store.keep(fed(engine, kept), kept)
    prompt = [1, 2, 3, 4, 5, 9, 8]
    reused = store.open(prompt)
    assert engine.length(reused) == 5
    fresh = engine.open()
    logits = []
    for sequence in (reused, fresh):
        prefill(engine, sequence, prompt[engine.length(sequence) : -1], chunk=3)
        output = engine.forward(Batch((TreeRows.chain(sequence, prompt[-1:]),)))
        logits.append(output.logits[0])
    np.testing.assert_array_equal(logits[0], logits[1])
