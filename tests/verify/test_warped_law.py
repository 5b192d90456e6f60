"""Laws over a proposal: each row is warped with the state of its own position."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.errors import ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import SeededNoise, SequentialNoise
from oneglance.sampling.row_kernels import row_kernels
from oneglance.sampling.softmax import softmax
from oneglance.sampling.warp import warp
from oneglance.types import ROOT, Float32Array, Float64Array, Proposal, RowSummaries
from oneglance.verify.select import accept
from oneglance.verify.warped_law import WarpedLaw

VOCAB_SIZE = 8
TREE = Proposal(np.array([3, 5, 3, 1]), np.array([ROOT, ROOT, 0, 2]))
PENALTIES = SamplingParams(
    temperature=0.7, frequency_penalty=0.4, presence_penalty=0.3, repetition_penalty=1.3
)


def rows(proposal: Proposal, seed: int = 0) -> Float32Array:
    shape = (len(proposal) + 1, VOCAB_SIZE)
    return np.random.default_rng(seed).normal(size=shape, scale=2).astype(np.float32)


def test_each_row_sees_the_tokens_on_its_own_path() -> None:
    history = TokenHistory([1, 2], [3])
    logits = rows(TREE)
    law = WarpedLaw(logits, TREE, PENALTIES, history, eos_ids={7})
    for node, path in ((ROOT, []), (0, [3]), (1, [5]), (2, [3, 3]), (3, [3, 3, 1])):
        appended = TokenHistory([1, 2], [3, *path])
        expected = warp(logits[node + 1], PENALTIES, appended, eos_ids={7})
        np.testing.assert_array_equal(law.logits(node), expected)
        np.testing.assert_array_equal(law.probs(node), softmax(expected))
        assert law.argmax(node) == int(np.argmax(expected))
    assert (law.vocab_size, law.is_greedy, law.position) == (VOCAB_SIZE, False, 1)


def test_min_tokens_ends_inside_a_path() -> None:
    params = SamplingParams(temperature=1.0, min_tokens=2)
    law = WarpedLaw(rows(TREE), TREE, params, TokenHistory([1]), eos_ids=frozenset({7}))
    assert [float(law.probs(node)[7]) > 0 for node in (ROOT, 0, 2, 3)] == [
        False,
        False,
        True,
        True,
    ]


def test_rows_are_warped_only_where_asked_for_and_once() -> None:
    asked = []

    def record(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        asked.append(tokens)
        return logits

    params = SamplingParams(temperature=1.0, logits_processors=(record,))
    law = WarpedLaw(rows(TREE), TREE, params, TokenHistory([1]))
    for _ in range(2):
        law.probs(2)
        law.argmax(2)
    assert asked == [(1, 3, 3)]


def test_greedy_law_is_one_hot_at_the_lowest_of_the_best() -> None:
    logits = np.array([[0.0, 2.0, 2.0, 1.0]], dtype=np.float32)
    law = WarpedLaw(logits, Proposal.empty(), SamplingParams(), TokenHistory([0]))
    assert law.is_greedy
    assert law.argmax(ROOT) == law.argmax(ROOT) == 1
    np.testing.assert_array_equal(law.probs(ROOT), [0, 1, 0, 0])


def test_cached_arrays_are_read_only_and_rows_untouched() -> None:
    logits = rows(TREE)
    before = logits.copy()
    law = WarpedLaw(logits, TREE, PENALTIES, TokenHistory([1]))
    for cached in (law.logits(0), law.probs(0)):
        with pytest.raises(ValueError, match="read-only"):
            cached[0] = 0
    np.testing.assert_array_equal(logits, before)


def test_logprobs_are_the_models_own() -> None:
    logits = rows(TREE)
    params = SamplingParams(temperature=0.5, top_k=2, banned_tokens=(0,), logit_bias={1: 5.0})
    law = WarpedLaw(logits, TREE, params, TokenHistory([1]))
    exact = logits[3].astype(np.float64)
    exact -= math.log(math.fsum(math.exp(value) for value in exact))
    for token in range(VOCAB_SIZE):
        assert law.logprob(2, token) == pytest.approx(exact[token], abs=1e-14)
    best = law.top_logprobs(2, 3)
    assert [token for token, _ in best] == list(np.argsort(-exact)[:3])
    assert [value for _, value in best] == [law.logprob(2, token) for token, _ in best]
    assert law.top_logprobs(2, 0) == ()
    assert len(law.top_logprobs(2, 100)) == VOCAB_SIZE


def test_ties_among_top_logprobs_go_to_the_lowest_id() -> None:
    logits = np.array([[1.0, 2.0, 2.0, 2.0]], dtype=np.float32)
    law = WarpedLaw(logits, Proposal.empty(), SamplingParams(), TokenHistory([0]))
    assert [token for token, _ in law.top_logprobs(ROOT, 2)] == [1, 2]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.7, top_p=0.8),
        SamplingParams(temperature=0.5, logit_bias={1: 5.0}),
        PENALTIES,
    ],
)
def test_summaries_of_the_engine_change_nothing(params: SamplingParams) -> None:
    logits = rows(TREE)
    summaries = RowSummaries(
        np.array([row_kernels().argmax(row) for row in logits]),
        np.array([row_kernels().log_normalizer(row) for row in logits]),
    )
    laws = [
        WarpedLaw(logits, TREE, params, TokenHistory([1]), {7}, given)
        for given in (None, summaries)
    ]
    for node in range(-1, len(TREE)):
        np.testing.assert_array_equal(laws[0].probs(node), laws[1].probs(node))
        assert laws[0].argmax(node) == laws[1].argmax(node)
        assert laws[0].logprob(node, 3) == laws[1].logprob(node, 3)


def test_a_broken_row_is_refused_with_summaries_too() -> None:
    logits = rows(TREE)
    logits[1, 2] = math.nan
    summaries = RowSummaries(np.full(len(logits), 2), np.full(len(logits), math.nan))
    law = WarpedLaw(logits, TREE, SamplingParams(), TokenHistory([1]), (), summaries)
    with pytest.raises(ParameterError, match="token 2 at position 1 is nan"):
        law.argmax(0)


def test_wrong_number_of_rows_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="one row for the root"):
        WarpedLaw(rows(TREE)[:-1], TREE, PENALTIES, TokenHistory([1]))
    with pytest.raises(AssertionError, match="rows over the vocabulary"):
        WarpedLaw(rows(TREE)[0], TREE, PENALTIES, TokenHistory([1]))


def test_forbidden_everywhere_names_the_position_inside_the_draft() -> None:
    params = SamplingParams(
        temperature=1.0,
        logits_processors=(lambda ids, row: row if len(ids) < 4 else row - math.inf,),
    )
    chain = Proposal.chain([0, 1])
    law = WarpedLaw(np.zeros((3, 4), np.float32), chain, params, TokenHistory([2], [3]))
    assert np.isfinite(law.logits(0)).all()
    with pytest.raises(ParameterError, match="position 3"):
        law.logits(1)


@pytest.mark.parametrize("seed", [None, 5])
def test_a_real_law_goes_through_accept(seed: int | None) -> None:
    params = SamplingParams(temperature=0.8, top_k=4, top_p=0.9, min_p=0.05, seed=seed)
    law = WarpedLaw(rows(TREE), TREE, params, TokenHistory([1]))
    noise = SequentialNoise(3) if seed is None else SeededNoise(seed)
    outcome = accept(TREE, law, noise)
    last = outcome.path[-1] if outcome.path else ROOT
    assert np.isfinite(law.logits(last)[outcome.next_token])
