"""The exponential and the logarithm: close to the truth, exact at their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oneglance.sampling import elementary
from oneglance.types import Float64Array

HAS_WIDER_TYPE = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
wide_truth = pytest.mark.skipif(not HAS_WIDER_TYPE, reason="needs a type wider than float64")


def units(found: Float64Array, truth: np.ndarray[tuple[int], np.dtype[np.longdouble]]) -> float:
    """The greatest error in units in the last place."""
    errors = np.abs(found - truth) / np.spacing(np.abs(truth.astype(np.float64)))
    return float(errors.max())


@wide_truth
@pytest.mark.parametrize(("low", "high"), [(-708.0, 0.0), (-40.0, 0.0), (-1.0, 0.0), (0.0, 700.0)])
def test_exp_is_within_one_unit_in_the_last_place(low: float, high: float) -> None:
    x = np.random.default_rng(0).uniform(low, high, 100_000)
    assert units(elementary.exp(x), np.exp(x.astype(np.longdouble))) < 1


@wide_truth
def test_log_is_within_one_unit_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    for x in (
        rng.random(100_000) + 2.0**-53,
        rng.uniform(0.7, 1.42, 100_000),
        1 - 2.0 ** -rng.uniform(1, 53, 100_000),
        2.0 ** rng.uniform(-1022, 1023, 100_000),
    ):
        inside = x[x != 1]
        assert units(elementary.log(inside), np.log(inside.astype(np.longdouble))) < 1


def test_exp_at_its_ends() -> None:
    x = np.array([-np.inf, -1e300, -708.1, -0.0, 0.0])
    np.testing.assert_array_equal(elementary.exp(x), [0, 0, 0, 1, 1])
    assert elementary.exp(np.array([-708.0]))[0] > np.finfo(np.float64).tiny


def test_exp_and_log_never_fall() -> None:
    x = np.linspace(-708.2, 0.0, 300_001)
    assert (np.diff(elementary.exp(x)) >= 0).all()
    assert (np.diff(elementary.log(np.linspace(1e-3, 40, 300_001))) >= 0).all()


def test_bits_that_other_machines_must_reproduce() -> None:
    """Written down once; a change here means other tokens for the same seed."""
    x = np.array([-0.1, -1.0, -math.pi, -20.0, -700.0])
    assert [value.hex() for value in elementary.exp(x).tolist()] == EXP_BITS
    y = np.array([1e-16, 0.1, 0.75, 2.0, 40.0])
    assert [value.hex() for value in elementary.log(y).tolist()] == LOG_BITS


EXP_BITS: list[str] = [
    "0x1.cf46d99d52b3ap-1",
    "0x1.78b56362cef38p-2",
    "0x1.620227b598efap-5",
    "0x1.1b48655f37267p-29",
    "0x1.14f2b0fb9307fp-1010",
]
LOG_BITS: list[str] = [
    "-0x1.26bb1bbb55516p+5",
    "-0x1.26bb1bbb55515p+1",
    "-0x1.269621134db92p-2",
    "0x1.62e42fefa39efp-1",
    "0x1.d82d33b32720dp+1",
]
