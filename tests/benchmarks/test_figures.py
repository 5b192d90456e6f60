"""What is said of samples: by turns, medians, ratios within rounds, scores of laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.corpus import cut_windows, language_reference
from benchmarks.scoring import Score, WindowScore, log_softmax, score_window
from benchmarks.summary import PassTimes, bare_kernels, kernel_shares, pass_rates, read_rates
from oneglance.bench.timing import Spread, alternate
from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.errors import ParameterError
from oneglance.llm import DEFAULT_MODEL


def test_tasks_take_turns_there_and_back() -> None:
    order: list[str] = []
    samples = alternate({"a": lambda: 1, "b": lambda: 2}, 3, order.append)
    assert samples == {"a": [1, 1, 1], "b": [2, 2, 2]}
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_a_spread_is_median_and_quartiles() -> None:
    assert Spread.of([5.0]) == Spread(5.0, 5.0, 5.0)
    assert Spread.of([4.0, 1.0, 3.0, 2.0, 100.0]) == Spread(3.0, 2.0, 4.0)


REPORT = {
    "read_bytes": 1000,
    "pass_bytes": 90,
    "kv_bytes_per_token": 1,
    "samples": {
        "read": [[1.0, 2.0, 9.0], [4.0, 4.0, 4.0]],
        "pass 10 1": [[1.0, 1.0, 7.0], [2.0, 2.0, 2.0]],
        "pass 10 8": [[3.0, 3.0, 3.0], [4.0, 4.0, 0.1]],
        "kernels 10 1": [{"pass": 10.0, "mlp_block": 4.0, "head": 5.0}] * 2,
        "products 10 1": [6.0, 6.0],
        "attention 10 1": [1.0, 1.0],
    },
}
"""Two rounds; the second is half as fast as the first."""


def test_ratios_are_taken_within_a_round() -> None:
    times = PassTimes.of(REPORT)
    assert times.milliseconds(10, 1).middle == 1500
    assert times.ratio(10, 8) == Spread.of([3.0, 2.0])


def test_bytes_per_second_count_weights_and_cache() -> None:
    assert read_rates(REPORT) == [500, 250]
    assert pass_rates(REPORT, 10) == [100, 50]


def test_what_is_in_no_kernel_is_python() -> None:
    shares = kernel_shares([{"pass": 10.0, "mlp_block": 4.0, "head": 5.0}])
    assert {name: share.middle for name, share in shares.items()} == {
        "head": 5000,
        "mlp_block": 4000,
        "Python": 1000,
        "whole pass": 10000,
    }


def test_the_parts_of_a_pass_add_up() -> None:
    parts = {name: spread.middle for name, spread in bare_kernels(REPORT, "10", "1").items()}
    memory = parts.pop("(a plain read of the same bytes)")
    assert memory == pytest.approx(1000 * 100 * (1 / 500 + 1 / 250) / 2)
    assert parts["Python"] == 1000
    assert parts["norms, rotations, quantising, barriers"] == 2000
    assert parts.pop("whole pass") == sum(parts.values())


def test_scores_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    head = rng.standard_normal((7, 4), dtype=np.float32)
    states = rng.standard_normal((3, 4), dtype=np.float32)
    own = states @ head.T + rng.standard_normal((3, 7), dtype=np.float32)
    score = score_window((2, 5, 1), states, head, {"own": [own[:2], own[2:]]})["own"]
    reference_law, law = (np.exp(log_softmax(rows))[:2] for rows in (states @ head.T, own))
    assert reference_law.sum(axis=1) == pytest.approx([1, 1])
    assert score.num_tokens == 2
    assert score.nll == pytest.approx(-math.log(law[0, 5] * law[1, 1]))
    assert score.reference_nll == pytest.approx(
        -math.log(reference_law[0, 5] * reference_law[1, 1])
    )
    assert score.kl == pytest.approx((reference_law * np.log(reference_law / law)).sum())
    best = reference_law.argmax(axis=1) == law.argmax(axis=1)
    assert score.num_agreeing == best.sum()


def test_an_engine_that_is_the_reference_scores_one() -> None:
    rng = np.random.default_rng(1)
    head = rng.standard_normal((7, 4), dtype=np.float32)
    states = rng.standard_normal((5, 4), dtype=np.float32)
    score = score_window((1, 2, 3, 4, 5), states, head, {"own": [states @ head.T]})["own"]
    assert score.kl == pytest.approx(0, abs=1e-6)
    assert score.num_agreeing == 4
    assert Score.of([score, score]).ratio == pytest.approx(1)


def test_windows_are_pooled_by_their_tokens() -> None:
    windows = [WindowScore(1, 1.0, 2.0, 0.5, 1), WindowScore(3, 3.0, 3.0, 0.5, 0)]
    score = Score.of(windows)
    assert score.num_tokens == 4
    assert score.ratio == pytest.approx(math.exp(5 / 4 - 1))
    assert score.mean_kl == 0.25
    assert score.agreement == 0.25
    assert score.ratio_error == pytest.approx(score.ratio * 0.5)


def test_windows_lie_side_by_side() -> None:
    tokenizer = load_checkpoint(resolve(DEFAULT_MODEL)).tokenizer
    text = language_reference().text[:2000]
    assert (
        cut_windows(language_reference().text, tokenizer, 50, 2)[1]
        == cut_windows(text, tokenizer, 50, 2)[1]
    )
    first, second = cut_windows(text, tokenizer, 50, 2)
    assert text.startswith(tokenizer.decode([*first, *second]))
    assert len(first) == len(second) == 50
    with pytest.raises(ParameterError, match="2000 windows of 50 tokens"):
        cut_windows(text, tokenizer, 50, 2000)
