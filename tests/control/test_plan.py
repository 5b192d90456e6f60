"""The arithmetic of `oneglance plan`, against enumeration and simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from oneglance.control.other_engines import settings_for
from oneglance.control.plan import (
    BATCHES,
    MAX_PLANNED,
    Draft,
    best_length,
    bigger_draft,
    break_even_acceptance,
    expected_tokens,
    last_paying_batch,
    speedup,
)
from oneglance.control.regime import (
    BatchTimes,
    Roofline,
    measure_batches,
    roofline,
    sentence,
    speedups,
)
from oneglance.errors import ParameterError
from oneglance.testing import ScriptedEngine, random_script


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_expected_tokens_are_those_of_every_outcome_weighted(acceptance: float, k: int) -> None:
    total = 0.0
    for outcome in product([True, False], repeat=k):
        probability = np.prod([acceptance if kept else 1 - acceptance for kept in outcome])
        total += float(probability) * (1 + [*outcome, False].index(False))
    assert expected_tokens(acceptance, k) == pytest.approx(total)


def simulated_speed(draft: Draft, k: int, row_share: float, batch: int) -> float:
    """Tokens of a sequence over passes of one row, by drawing outcomes."""
    generator = np.random.default_rng(0)
    tokens = seconds = 0.0
    for _ in range(20000):
        speaks = generator.random() < draft.coverage
        right = generator.random(k) < draft.acceptance
        tokens += 1 + (int(np.argmin([*right, False])) if speaks else 0)
        rows = batch * (k + 1 if speaks else 1)
        seconds += 1 + row_share * (rows - 1) + (batch * k * draft.cost if speaks else 0.0)
    return tokens / seconds


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("coverage", [1.0, 0.4])
def test_the_speedup_is_that_of_a_simulation(coverage: float, batch: int) -> None:
    draft = Draft("it", 0.7, 0.1, coverage)

    def verify(rows: int) -> float:
        return 1 + 0.15 * (rows - 1)

    plain = 1.0 / verify(batch)
    measured = simulated_speed(draft, 3, 0.15, batch) / plain
    assert speedup(draft, 3, verify, batch) == pytest.approx(measured, rel=0.02)


def test_the_best_length_is_found_and_none_where_drafting_loses() -> None:
    def cheap(rows: int) -> float:
        return 1 + 0.05 * (rows - 1)

    draft = Draft("it", 0.8, 0.1)
    k = best_length(draft, cheap)
    assert 0 < k < MAX_PLANNED
    for other in range(MAX_PLANNED + 1):
        assert speedup(draft, other, cheap) <= speedup(draft, k, cheap)
    assert best_length(replace(draft, cost=5.0), cheap) == 0
    assert speedup(draft, 0, cheap) == 1.0


def test_where_it_begins_and_ends_to_pay() -> None:
    def verify(rows: int) -> float:
        """Memory-bound up to eight rows, then in proportion."""
        return max(1.0, rows / 8)

    draft = Draft("it", 0.8, 0.05)
    least = break_even_acceptance(draft, verify)
    assert least is not None
    assert best_length(replace(draft, acceptance=least + 0.02), verify) > 0
    assert best_length(replace(draft, acceptance=least - 0.02), verify) == 0
    assert break_even_acceptance(replace(draft, cost=9.0), verify) is None
    assert last_paying_batch(draft, verify, BATCHES) == 4
    assert last_paying_batch(replace(draft, cost=9.0), verify) is None


def test_the_best_acceptance_is_not_the_fastest() -> None:
    """70 % → 90 % at four times the cost: worth it where the small draft is nearly free only."""

    def verify(rows: int) -> float:
        return 1 + 0.03 * (rows - 1)

    def gain(cost: float) -> float:
        small = Draft("small", 0.7, cost)
        big = bigger_draft(small)
        assert big.acceptance == pytest.approx(0.9)
        assert big.cost == pytest.approx(4 * cost)
        fast, slow = (speedup(each, best_length(each, verify), verify) for each in (big, small))
        return fast / slow

    assert gain(0.01) > 1.0 > gain(0.2)


@pytest.mark.parametrize(
    ("engine", "drafter", "words"),
    [
        ("vllm", "ngram", ['"method": "ngram"', '"num_speculative_tokens": 5']),
        ("vllm", "suffix", ['"method": "suffix"']),
        ("vllm", "draft:org/small", ['"method": "draft_model"', '"model": "org/small"']),
        ("llama.cpp", "suffix", ["--spec-type ngram-simple", "--spec-ngram-simple-size-m 5"]),
        ("llama.cpp", "draft:s.gguf", ["-md s.gguf", "--spec-draft-n-max 5"]),
        ("sglang", "ngram", ["NGRAM", "--speculative-num-draft-tokens 6"]),
        ("sglang", "draft:org/small", ["STANDALONE", "-num-steps 5", "-num-draft-tokens 6"]),
    ],
)
def test_advice_in_the_words_of_other_engines(engine: str, drafter: str, words: list[str]) -> None:
    settings = settings_for(engine, drafter, 5)
    assert all(word in settings for word in words), settings
    if engine == "vllm":
        json.loads(settings.split("'")[1])
    assert settings_for(engine, drafter, 0).startswith("#")


def test_an_engine_that_is_not_known_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"'trt' is not known; choose one of vllm, llama\.cpp"):
        settings_for("trt", "ngram", 4)


TIMES = [BatchTimes(1, 1.0, 1.0), BatchTimes(4, 1.0, 2.0), BatchTimes(16, 2.0, 8.0)]


def test_the_roofline_of_a_machine_with_a_sharp_ridge() -> None:
    """One second for the weights, an eighth for each row."""
    limits = roofline(TIMES, 3, None)
    assert (limits.memory_seconds, limits.row_seconds) == (1.0, 0.125)
    assert limits.ridge == pytest.approx(8.0)
    for each in TIMES:
        assert limits.seconds(each.batch) <= each.plain
        assert limits.seconds(4 * each.batch) <= each.verifying
    assert roofline(TIMES, 3, 0.9).memory_seconds == 0.9


def test_the_crossover_is_found_and_said() -> None:
    draft = Draft("it", 0.7, 0.0)
    gains = speedups(TIMES, draft, 3, 1.0)
    tokens = expected_tokens(0.7, 3)
    assert gains == pytest.approx([tokens, tokens / 2, tokens / 4])
    limits = Roofline(1.0, 0.125)
    assert "pays up to batch 4, and not at 16" in sentence(TIMES, gains, limits)
    assert "up to about 8 rows are memory-bound" in sentence(TIMES, gains, limits)
    assert "does not pay at any" in sentence(TIMES, [0.9] * 3, limits)
    assert "at every batch size measured, up to 16" in sentence(TIMES, [1.1] * 3, limits)
    assert "pays at batch 1, 16." in sentence(TIMES, [1.1, 0.9, 1.1], limits)


def test_batches_are_measured_and_everything_is_closed() -> None:
    engine = ScriptedEngine(random_script(3, 0), 3, context_length=64)
    found = measure_batches(engine, [0, 1, 2], (1, 2, 4), 3, 60.0)
    assert [each.batch for each in found] == [1, 2, 4]
    assert all(each.plain > 0 and each.verifying > 0 for each in found)
    assert engine.num_open == 0
    assert len(measure_batches(engine, [0], (1, 2, 4), 3, 0.0)) == 1, "the first in any case"
