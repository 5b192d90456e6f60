"""The numpy form of the row operations means what it says, and takes over where it must."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.sampling import row_kernels as module
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.log_law import LogLaw
from oneglance.sampling.noise import KeyedNoise, SeededNoise, SequentialNoise
from oneglance.sampling.numpy_rows import NumpyRows
from oneglance.sampling.row_kernels import contiguous, native_rows, row_kernels
from oneglance.sampling.warp import log_law, warp
from oneglance.types import Float64Array
from oneglance.verify.enumeration import enumerate_outcomes

ROWS = NumpyRows()


@pytest.fixture
def without_compiled_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "oneglance._native", None)
    row_kernels.cache_clear()
    yield
    row_kernels.cache_clear()


def test_an_installation_without_a_compiler_gets_the_numpy_form(
    without_compiled_module: None,
) -> None:
    del without_compiled_module
    assert isinstance(row_kernels(), NumpyRows)


PARAMS = (
    {"temperature": 1.0},
    {"temperature": 0.8, "top_p": 0.95},
    {"temperature": 1.3, "top_k": 7, "top_p": 0.9, "min_p": 0.01},
)


def choices() -> list[int]:
    found = []
    for index, options in enumerate(PARAMS):
        params = SamplingParams(**options)  # type: ignore[arg-type]
        for position in range(30):
            rng = np.random.default_rng([index, position])
            row = (4 * rng.normal(size=2000)).astype(np.float32)
            law = log_law(row, params, TokenHistory([]), eos_ids=())
            found.append(SeededNoise(5).sample_from(law, position))
            found.append(SequentialNoise(position).draw_from(law))
            found.append(SequentialNoise(position).draw(law.probs()))
    return found


def test_tokens_are_the_same_without_the_compiled_module(
    request: pytest.FixtureRequest,
) -> None:
    compiled = choices()
    request.getfixturevalue("without_compiled_module")
    assert choices() == compiled


def test_an_instruction_set_is_chosen_by_name() -> None:
    native = pytest.importorskip("oneglance._native")
    for isa in native.available_isas():
        assert native_rows(native, isa).isa == isa  # type: ignore[attr-defined]
    best = native.available_isas()[0]
    assert native_rows(native, None).isa == best  # type: ignore[attr-defined]
    assert native_rows(native, "sse9").isa == best  # type: ignore[attr-defined]
    assert module.row_kernels() is module.row_kernels()


def test_rows_that_are_not_contiguous_are_copied() -> None:
    row = np.arange(6.0)
    assert contiguous(row) is row
    np.testing.assert_array_equal(contiguous(row[::2]), [0, 2, 4])


def test_sum_has_the_documented_order() -> None:
    x = np.random.default_rng(0).normal(size=1003) * 10.0 ** (np.arange(1003) % 7)
    partials = [0.0] * 16
    for index, value in enumerate(x.tolist()):
        partials[index % 16] += value
    for width in (8, 4, 2, 1):
        partials = [partials[i] + partials[i + width] for i in range(width)]
    assert ROWS.sum(x) == partials[0]


def test_normalizer_of_a_row() -> None:
    row = (5 * np.random.default_rng(0).normal(size=3000)).astype(np.float32)
    truth = math.log(math.fsum(math.exp(value) for value in row.tolist()))
    assert ROWS.log_normalizer(row) == pytest.approx(truth, abs=4e-15)


def test_edges_of_the_numpy_form() -> None:
    assert math.isnan(ROWS.log_normalizer(np.array([1.0, math.nan])))
    flat = np.zeros(5000)
    assert len(ROWS.nucleus(flat, 0.0, 1.0, 0.5)) == 2500
    flat[-2:] = -math.inf
    assert ROWS.draw(flat, 0.0, 1.0, 1.0) == 4997
    assert ROWS.draw(np.array([0.0, -50.0]), 0.0, 1.0, math.nextafter(1, 0)) == 0
    key = (5, 0, 3)
    noise = ROWS.gumbel(np.array([900, 7]), *key)
    np.testing.assert_array_equal(noise, SeededNoise(5).gumbel(3, 901)[[900, 7]])
    ids = np.array([7, 900])
    winner = ROWS.best_with_noise(np.zeros(2), 0.0, 1.0, ids, *key, 1)
    assert winner.tolist() == [int(noise[0] > noise[1])]


class DenseKeyedNoise(KeyedNoise):
    """Noise that knows nothing of laws given by scores."""

    def sample(self, logits: Float64Array, position: int) -> int:
        return SeededNoise(5).sample(logits, position)

    def sample_distinct(self, logits: Float64Array, position: int, count: int) -> list[int]:
        return SeededNoise(5).sample_distinct(logits, position, count)


def test_noise_that_needs_the_whole_law_gets_it() -> None:
    law = log_law(
        np.random.default_rng(0).normal(size=9),
        SamplingParams(temperature=1.0, top_k=4),
        TokenHistory([]),
        eos_ids=(),
    )
    for position in range(20):
        expected = SeededNoise(5).sample_from(law, position)
        assert DenseKeyedNoise().sample_from(law, position) == expected
    assert enumerate_outcomes(lambda noise: noise.draw_from(law)) == pytest.approx(
        {token: law.probs()[token] for token in np.flatnonzero(law.probs()).tolist()}
    )


def share(law: LogLaw, token: int, probs: Float64Array) -> float:
    """The measure of the uniforms that draw a token, by bisection from a point that does."""
    below = float(probs[:token].sum())
    inside = below + float(probs[token]) / 2
    assert law.draw(inside) == token

    def edge(outside: float) -> float:
        near = inside
        for _ in range(60):
            middle = (near + outside) / 2
            near, outside = (middle, outside) if law.draw(middle) == token else (near, middle)
        return near

    return edge(1.0) - edge(0.0)


@pytest.mark.parametrize("size", [3, 300, 700])
def test_a_draw_has_the_law(size: int) -> None:
    row = 2 * np.random.default_rng(size).normal(size=size)
    row[::5] = -math.inf
    for options in PARAMS:
        law = log_law(row, SamplingParams(**options), TokenHistory([]), eos_ids=())  # type: ignore[arg-type]
        probs = law.probs()
        for token in np.flatnonzero(probs > 1e-6)[:40].tolist():
            assert share(law, token, probs) == pytest.approx(probs[token], abs=1e-12)


def test_a_truncated_law_is_the_warped_one() -> None:
    row = (3 * np.random.default_rng(3).normal(size=500)).astype(np.float32)
    for options in PARAMS:
        params = SamplingParams(**options)  # type: ignore[arg-type]
        law = log_law(row, params, TokenHistory([]), eos_ids=())
        warped = warp(row, params, TokenHistory([]), eos_ids=())
        np.testing.assert_array_equal(law.logits(), warped)
        for position in range(20):
            noise = SeededNoise(8)
            assert noise.sample_from(law, position) == noise.sample(warped, position)
            for count in (2, 3, 9):
                tokens = noise.sample_distinct_from(law, position, count)
                assert tokens == noise.sample_distinct(warped, position, count)


def test_logits_that_round_to_one_score_are_cut_by_lowest_id() -> None:
    """1e-30 and 2e-30 lie equally far below 20 in float64."""
    row = np.array([1e-30, 2e-30, 20.0, 3e-30], dtype=np.float32)
    law = log_law(row, SamplingParams(temperature=1.0, top_k=2), TokenHistory([]), eos_ids=())
    assert law.ids is not None
    assert law.ids.tolist() == [0, 2]
