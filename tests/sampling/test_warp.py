"""Each option of the law on its own, ties and edges included, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oneglance.config import LogitsProcessor, SamplingParams
from oneglance.constraints import TokenMask
from oneglance.errors import DeadEndError, ParameterError
from oneglance.sampling.adjust import adjusted
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.softmax import log_normalizer, softmax
from oneglance.sampling.warp import greedy_token, warp
from oneglance.types import BoolArray, Float64Array

INF = math.inf
EMPTY = TokenHistory([])


def law(
    logits: list[float],
    history: TokenHistory = EMPTY,
    path: tuple[int, ...] = (),
    eos_ids: frozenset[int] = frozenset(),
    **options: Any,
) -> Float64Array:
    params = SamplingParams(**{"temperature": 1.0, **options})
    return warp(np.array(logits), params, history, path, eos_ids=eos_ids)


def support(logits: list[float], **options: Any) -> list[int]:
    return [int(token) for token in np.flatnonzero(law(logits, **options) > -INF)]


def from_probs(*probs: float) -> list[float]:
    return [math.log(prob) for prob in probs]


def test_with_everything_off_the_model_speaks() -> None:
    logits = np.random.default_rng(0).normal(size=50).astype(np.float32)
    expected = np.exp(logits.astype(np.float64))
    found = softmax(warp(logits, SamplingParams(temperature=1.0), EMPTY, eos_ids={3}))
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-14)


def test_temperature_divides() -> None:
    np.testing.assert_array_equal(law([1.0, 3.0, 2.0], temperature=0.5), [-4.0, 0.0, -2.0])
    np.testing.assert_array_equal(law([1.0, 3.0, 2.0], temperature=2.0), [-1.0, 0.0, -0.5])


def test_the_smallest_temperature_is_greedy_without_overflow() -> None:
    np.testing.assert_array_equal(law([1.0, 3.0, 3.0], temperature=5e-324), [-INF, 0.0, 0.0])


def test_greedy_keeps_penalties_and_bans_but_not_truncation() -> None:
    history = TokenHistory([], [1])
    found = law(
        [1.0, 3.0, 2.0, 2.5],
        history,
        temperature=0.0,
        frequency_penalty=1.5,
        banned_tokens=(3,),
        top_k=1,
        top_p=0.1,
        min_p=1.0,
    )
    np.testing.assert_array_equal(found, [1.0, 1.5, 2.0, -INF])


def test_repetition_penalty_reaches_prompt_output_and_path_once() -> None:
    found = law(
        [2.0, -2.0, 0.0, 4.0, 4.0],
        TokenHistory([0, 0], [1, 1, 2]),
        path=(3,),
        temperature=0.0,
        repetition_penalty=2.0,
    )
    np.testing.assert_array_equal(found, [1.0, -4.0, 0.0, 2.0, 4.0])


def test_presence_and_frequency_count_output_and_path_only() -> None:
    found = law(
        [0.0, 0.0, 0.0, 0.0],
        TokenHistory([0, 0], [1, 2, 2]),
        path=(2, 3),
        temperature=0.0,
        presence_penalty=0.5,
        frequency_penalty=0.25,
    )
    np.testing.assert_array_equal(found, [0.0, -0.75, -1.25, -0.75])


def test_bias_comes_after_penalties_and_bans_after_bias() -> None:
    found = law(
        [4.0, 4.0],
        TokenHistory([0]),
        temperature=0.0,
        repetition_penalty=2.0,
        logit_bias={0: 1.0, 1: 100.0},
        banned_tokens=(1,),
    )
    np.testing.assert_array_equal(found, [3.0, -INF])


@pytest.mark.parametrize(
    ("num_output", "path", "ignore_eos", "is_forbidden"),
    [(0, (), False, True), (1, (0,), False, False), (1, (), False, True), (0, (), True, False)],
)
def test_min_tokens_forbids_the_end(
    num_output: int, path: tuple[int, ...], ignore_eos: bool, is_forbidden: bool
) -> None:
    found = law(
        [0.0, 0.0, 0.0],
        TokenHistory([2], [0] * num_output),
        path,
        frozenset({1, 2}),
        min_tokens=2,
        ignore_eos=ignore_eos,
    )
    assert bool(found[1] == found[2] == -INF) is is_forbidden


def test_min_tokens_without_an_end_token_changes_nothing() -> None:
    np.testing.assert_array_equal(law([0.0, 0.0], min_tokens=2), [0.0, 0.0])


def test_top_k_keeps_the_largest_and_of_ties_the_lowest_ids() -> None:
    assert support([1.0, 3.0, 2.0, 3.0], top_k=2) == [1, 3]
    assert support([1.0, 3.0, 2.0, 2.0, 2.0], top_k=3) == [1, 2, 3]
    assert support([1.0, 1.0, 1.0], top_k=1) == [0]
    assert support([1.0, 2.0], top_k=2) == [0, 1]
    assert support([1.0, 2.0], top_k=100) == [0, 1]


def test_top_k_larger_than_what_is_allowed() -> None:
    assert support([1.0, 3.0, 2.0, 3.0], top_k=3, banned_tokens=(0, 1)) == [2, 3]


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    probs = from_probs(0.2, 0.5, 0.3)
    assert support(probs, top_p=0.4) == [1]
    assert support(probs, top_p=0.79) == [1, 2]
    assert support(probs, top_p=0.81) == [0, 1, 2]
    assert support(probs, top_p=1e-300) == [1]


def test_top_p_cuts_ties_by_lowest_id_and_stops_exactly_where_it_is_reached() -> None:
    assert support([0.0] * 4, top_p=0.5) == [0, 1]
    assert support([0.0] * 4, top_p=0.51) == [0, 1, 2]


def test_top_p_just_below_one_keeps_all_that_rounding_allows() -> None:
    assert support([0.0] * 7, top_p=math.nextafter(1, 0)) == list(range(7))


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999, 1 - 1e-12])
def test_top_p_of_a_flat_law_sorts_as_far_as_it_must(top_p: float) -> None:
    """The nucleus is larger than the stretch that is sorted first, several times over."""
    logits = np.random.default_rng(1).normal(size=20_000, scale=0.5)
    found = warp(logits, SamplingParams(temperature=1.0, top_p=top_p), EMPTY, eos_ids=())
    order = np.argsort(-logits, kind="stable")
    cumulative = np.cumsum(np.exp(logits - logits.max())[order])
    count = int(np.searchsorted(cumulative, top_p * cumulative[-1])) + 1
    assert abs(int((found > -INF).sum()) - count) <= (1 if top_p > 0.9999 else 0)
    assert (found[order[: count - 1]] > -INF).all()


def test_min_p_is_relative_to_the_best_that_is_left() -> None:
    probs = from_probs(0.6, 0.25, 0.1, 0.05)
    assert support(probs, min_p=0.2) == [0, 1]
    assert support(probs, min_p=0.2, banned_tokens=(0,)) == [1, 2, 3]
    assert support([0.0, 0.0, -1e-9], min_p=1.0) == [0, 1]


def test_top_p_is_taken_of_what_top_k_left() -> None:
    probs = from_probs(0.4, 0.3, 0.2, 0.1)
    assert support(probs, top_p=0.55) == [0, 1]
    assert support(probs, top_p=0.55, top_k=2) == [0]  # 0.4 / 0.7 reaches it already


def test_temperature_comes_before_top_p_and_min_p() -> None:
    probs = from_probs(0.6, 0.4)
    assert support(probs, top_p=0.65) == [0, 1]
    assert support(probs, top_p=0.65, temperature=0.5) == [0]  # 0.36 / 0.52
    assert support(probs, min_p=0.5) == [0, 1]
    assert support(probs, min_p=0.5, temperature=0.5) == [0]


def test_processors_run_first_in_turn_with_all_tokens() -> None:
    seen: list[tuple[int, ...]] = []

    def double(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        seen.append(tokens)
        return logits * 2

    def add_one(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        del tokens
        logits += 1
        return logits

    history = TokenHistory(np.array([0]), np.array([1]))
    found = law(
        [1.0, 2.0],
        history,
        path=(0,),
        temperature=0.0,
        repetition_penalty=2.0,
        logits_processors=(double, add_one),
    )
    np.testing.assert_array_equal(found, [1.5, 2.5])
    assert seen == [(0, 1, 0)]
    assert all(type(token) is int for token in seen[0])


def test_a_processor_may_keep_the_array_that_it_returns() -> None:
    kept = np.zeros(3)
    found = law([1.0, 2.0, 3.0], logits_processors=(lambda _ids, _row: kept,), banned_tokens=(0,))
    np.testing.assert_array_equal(kept, np.zeros(3))
    np.testing.assert_array_equal(found, [-INF, 0.0, 0.0])


class NamelessProcessor:
    def __call__(self, tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        return logits[: len(tokens)]


def returns_text(_tokens: tuple[int, ...], _logits: Float64Array) -> Any:
    return "none"


def returns_nothing(_tokens: tuple[int, ...], _logits: Float64Array) -> Any:
    return None


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (NamelessProcessor(), r"'NamelessProcessor' returned an array of shape \(0,\).* 3 logits"),
        (returns_text, "'returns_text' returned str, which is not an array of numbers"),
        (returns_nothing, r"'returns_nothing' returned an array of shape \(\)"),
    ],
)
def test_processors_that_return_something_else_are_refused(
    processor: LogitsProcessor, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        law([1.0, 2.0, 3.0], logits_processors=(processor,))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_law_without_tokens_is_refused(temperature: float) -> None:
    with pytest.raises(ParameterError, match="Every token is forbidden at position 3"):
        law(
            [1.0, 2.0],
            TokenHistory([], [0, 0]),
            path=(1,),
            banned_tokens=(0, 1),
            temperature=temperature,
        )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, INF])
def test_numbers_without_meaning_are_refused(bad: float, temperature: float) -> None:
    with pytest.raises(ParameterError, match=f"logit of token 1 at position 0 is {bad}"):
        law([0.0, bad, -INF], temperature=temperature)


def test_a_banned_token_may_have_any_logit() -> None:
    assert support([0.0, math.nan, 1.0], banned_tokens=(1,)) == [0, 2]


def test_one_forced_token() -> None:
    for options in ({}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}):
        assert support([-INF, 5.0, -INF], **options) == [1]


def test_overflowing_penalties_forbid_and_do_not_warn() -> None:
    found = law([-1e30, 0.0], TokenHistory([0]), repetition_penalty=1e300)
    np.testing.assert_array_equal(found, [-INF, 0.0])


def test_input_is_not_modified() -> None:
    logits = np.array([1.0, 2.0, 3.0])
    params = SamplingParams(temperature=0.0, banned_tokens=(0,), logit_bias={1: 3.0})
    warp(logits, params, TokenHistory([1], [2]), eos_ids=())
    np.testing.assert_array_equal(logits, [1.0, 2.0, 3.0])


def test_softmax_of_extreme_logits() -> None:
    np.testing.assert_array_equal(softmax(np.array([1e300, -1e300, -INF])), [1.0, 0.0, 0.0])
    assert log_normalizer(np.array([1000.0, 1000.0])) == pytest.approx(1000 + math.log(2))


def test_a_row_that_nothing_changes_is_not_copied() -> None:
    row = np.array([0.0, 3.0, 1.0], dtype=np.float32)
    for options, is_copied in (
        ({"min_tokens": 0}, False),
        ({"min_tokens": 1}, True),
        ({"min_tokens": 1, "ignore_eos": True}, False),
        ({"banned_tokens": (0,)}, True),
        ({"logit_bias": {0: 1.0}}, True),
        ({"repetition_penalty": 1.5}, True),
        ({"presence_penalty": 0.5}, True),
        ({"frequency_penalty": 0.5}, True),
        ({"logits_processors": (lambda _ids, scores: scores,)}, True),
    ):
        params = SamplingParams(**options)
        scores, token = adjusted(row, params, EMPTY, (), eos_ids={2})
        assert (scores is not row) is is_copied
        assert token == greedy_token(row, params, EMPTY, eos_ids={2}) == 1


@pytest.mark.parametrize("bad", [math.nan, INF])
def test_numbers_without_meaning_are_refused_in_a_row_that_is_not_copied(bad: float) -> None:
    row = np.array([0.0, bad, -INF], dtype=np.float32)
    with pytest.raises(ParameterError, match=f"logit of token 1 at position 0 is {bad}"):
        greedy_token(row, SamplingParams(), EMPTY, eos_ids=())


class AfterTheLast(TokenMask):
    """Allows a token and the next two after it; behind token 4 it says nothing."""

    def allowed(self, output: tuple[int, ...]) -> BoolArray | None:
        if output[-1:] == (4,):
            return None
        first = output[-1] if output else 0
        return np.isin(np.arange(6), [first, first + 1, first + 2])


def test_a_constraint_forbids_by_output_and_path() -> None:
    logits = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    history = TokenHistory([5, 5], [1])
    assert support(logits, constraint=AfterTheLast()) == [0, 1, 2]
    assert support(logits, constraint=AfterTheLast(), history=history) == [1, 2, 3]
    assert support(logits, constraint=AfterTheLast(), history=history, path=(2,)) == [2, 3, 4]
    assert support(logits, constraint=AfterTheLast(), path=(4,)) == [0, 1, 2, 3, 4, 5]
    assert support(logits, constraint=AfterTheLast(), top_k=2, path=(3,)) == [3, 4]


def test_a_constraint_is_the_same_in_a_row_of_float32_and_beside_other_options() -> None:
    row = np.random.default_rng(4).normal(size=6).astype(np.float32)
    before = row.copy()
    for temperature in (0.0, 0.7):
        alone = SamplingParams(temperature=temperature, constraint=AfterTheLast())
        beside = SamplingParams(
            temperature=temperature, constraint=AfterTheLast(), logit_bias={5: 0.0}
        )
        found = warp(row, alone, EMPTY, (1,), eos_ids=())
        np.testing.assert_array_equal(found, warp(row, beside, EMPTY, (1,), eos_ids=()))
        assert np.flatnonzero(found > -INF).tolist() == [1, 2, 3]
    assert adjusted(row, alone, EMPTY, (1,), ())[0].dtype == np.float32
    assert greedy_token(row, SamplingParams(constraint=AfterTheLast()), EMPTY, eos_ids=()) < 3
    np.testing.assert_array_equal(row, before)


def test_no_other_option_brings_back_what_a_constraint_forbids() -> None:
    def everything(_tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        return np.zeros(len(logits))

    options: dict[str, Any] = {
        "logits_processors": (everything,),
        "logit_bias": {5: 1e300},
        "repetition_penalty": 0.1,
    }
    assert support([0.0] * 6, constraint=AfterTheLast(), **options) == [0, 1, 2]


def test_a_constraint_and_bans_can_forbid_all() -> None:
    with pytest.raises(DeadEndError, match="the constraint together"):
        law([0.0] * 6, constraint=AfterTheLast(), banned_tokens=(0, 1, 2))
