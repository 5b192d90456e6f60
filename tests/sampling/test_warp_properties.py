"""Properties of the law over random logits, histories and parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oneglance.config import SamplingParams
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.softmax import softmax
from oneglance.sampling.warp import warp
from oneglance.types import Float64Array
from tests.sampling.slow_warp import slow_scores, slow_support

EOS_IDS = frozenset({1, 2})
PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)


@dataclass(frozen=True)
class Case:
    logits: Float64Array
    params: SamplingParams
    prompt: list[int]
    output: list[int]

    def law(self, split: int = 0, params: SamplingParams | None = None) -> Float64Array:
        """The law, with the last `split` output tokens given as a path."""
        cut = len(self.output) - min(split, len(self.output))
        history = TokenHistory(self.prompt, self.output[:cut])
        path = self.output[cut:]
        return warp(self.logits, params or self.params, history, path, eos_ids=EOS_IDS)


@st.composite
def cases(draw: st.DrawFn, is_greedy: bool = False) -> Case:
    size = draw(st.integers(4, 12))
    ids = st.integers(0, size - 1)
    # Eighths: ties are common, and adding a constant is exact.
    eighths = st.integers(-40, 40).map(lambda number: number / 8)
    params = SamplingParams(
        temperature=0.0 if is_greedy else draw(st.sampled_from([0.25, 0.7, 1.0, 2.0])),
        min_tokens=draw(st.integers(0, 4)),
        top_k=draw(st.integers(0, size + 2)),
        top_p=draw(st.sampled_from([0.1, 0.35, 0.6, 0.9, 0.99, 1.0])),
        min_p=draw(st.sampled_from([0.0, 0.03, 0.2, 0.7])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 0.8])),
        presence_penalty=draw(st.sampled_from([0.0, 0.5, -0.25])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.25, -0.5])),
        logit_bias=draw(st.dictionaries(ids, eighths, max_size=3)),
        banned_tokens=tuple(draw(st.sets(ids, max_size=2)) - {0}),
        ignore_eos=draw(st.booleans()),
    )
    return Case(
        logits=np.array(draw(st.lists(eighths, min_size=size, max_size=size))),
        params=params,
        prompt=draw(st.lists(ids, max_size=5)),
        output=draw(st.lists(ids, max_size=6)),
    )


@PROPERTY
@given(cases())
def test_equals_the_obvious_definition(case: Case) -> None:
    scores = slow_scores(list(case.logits), case.params, case.prompt, case.output, EOS_IDS)
    kept = slow_support(scores, case.params)
    assume(kept is not None)
    assert kept is not None
    found = case.law()
    assert list(np.flatnonzero(found > -math.inf)) == kept
    weights = [math.exp(scores[token] / case.params.temperature) for token in kept]
    expected = [weight / math.fsum(weights) for weight in weights]
    np.testing.assert_allclose(softmax(found)[kept], expected, rtol=1e-12)


@PROPERTY
@given(cases(is_greedy=True))
def test_greedy_equals_the_obvious_definition(case: Case) -> None:
    scores = slow_scores(list(case.logits), case.params, case.prompt, case.output, EOS_IDS)
    np.testing.assert_allclose(case.law(), scores, rtol=1e-13, atol=1e-13)


@PROPERTY
@given(st.one_of(cases(), cases(is_greedy=True)), st.integers(0, 6))
def test_path_tokens_count_as_appended_bit_for_bit(case: Case, split: int) -> None:
    np.testing.assert_array_equal(case.law(split), case.law())


@PROPERTY
@given(cases())
def test_is_a_law(case: Case) -> None:
    probs = softmax(case.law())
    assert math.isclose(math.fsum(probs), 1.0, abs_tol=1e-12)
    assert (probs >= 0).all()
    forbidden = set(case.params.banned_tokens)
    if len(case.output) < case.params.min_tokens and not case.params.ignore_eos:
        forbidden |= EOS_IDS
    assert not probs[sorted(forbidden)].any()


@PROPERTY
@given(cases(), st.integers(-64, 64))
def test_adding_a_constant_changes_nothing(case: Case, shift: int) -> None:
    params = replace(case.params, repetition_penalty=1.0)  # the one step that is not invariant
    moved = replace(case, logits=case.logits + shift / 8)
    np.testing.assert_array_equal(moved.law(params=params), case.law(params=params))


@PROPERTY
@given(cases(), st.integers(1, 12), st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from([0.1, 0.5]))
def test_each_truncation_only_shrinks_the_support(
    case: Case, top_k: int, top_p: float, min_p: float
) -> None:
    def support(**options: float) -> set[int]:
        params = replace(case.params, **{"top_k": 0, "top_p": 1.0, "min_p": 0.0, **options})  # type: ignore[arg-type]
        return set(np.flatnonzero(case.law(params=params) > -math.inf))

    everything = support()
    previous = everything
    options: dict[str, float] = {}
    for name, value in (("top_k", top_k), ("top_p", top_p), ("min_p", min_p)):
        options[name] = value
        found = support(**options)
        assert found
        assert found <= previous
        previous = found
    assert support(top_k=top_k) <= support(top_k=top_k + 1)
    assert support(top_p=top_p) <= support(top_p=top_p + 0.1)
    assert support(min_p=min_p) <= support(min_p=min_p / 2)


@PROPERTY
@given(cases())
def test_the_best_token_stays_and_order_is_kept(case: Case) -> None:
    untruncated = case.law(params=replace(case.params, top_k=0, top_p=1.0, min_p=0.0))
    found = case.law()
    assert found[np.argmax(untruncated)] == 0.0
    kept = found > -math.inf
    np.testing.assert_array_equal(found[kept], untruncated[kept])
    if not kept.all():
        assert untruncated[~kept].max() <= untruncated[kept].min()
