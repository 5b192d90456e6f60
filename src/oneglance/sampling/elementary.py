"""The exponential and the logarithm in float64, whose bits are ours on every machine.

Those of numpy and of C libraries differ in the last bit from one CPU or version to the next, and
"same seed, same tokens" (contract C3) must not. Here each is a fixed sequence of single IEEE
operations, none of them fused, so that the compiled kernels (`csrc/kernels/elementary.h`), which
perform the same sequence, give the same bits. Both are within 1 unit in the last place.

The polynomials have the least greatest relative error for their degree (Remez exchange in 200-bit
arithmetic): 2^-57.9 for the exponential, 2^-59.5 for the logarithm.
"""

from __future__ import annotations

import numpy as np

from oneglance.types import Float64Array

_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
# ln 2 in two parts; the high one has 41 bits, so that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fefa3000p-1")
_LN2_LOW = float.fromhex("0x1.3de6af278ece6p-42")
# Adding it rounds to an integer, ties to even, which then lies in the low bits.
_ROUNDER = float.fromhex("0x1.8p+52")
_LOWEST_EXPONENT = -708.0

_EXP_COEFFICIENTS = tuple(
    float.fromhex(digits)
    for digits in (
        "0x1.ad7f3ee5d2f80p-26",
        "0x1.28ad9b8648615p-22",
        "0x1.71df25b30d420p-19",
        "0x1.a01999e26209fp-16",
        "0x1.a01a012a0f35cp-13",
        "0x1.6c16c18438b11p-10",
        "0x1.1111111127d0ep-7",
        "0x1.555555555083ep-5",
        "0x1.55555555554f9p-3",
        "0x1.000000000000ap-1",
    )
)
_LOG_COEFFICIENTS = tuple(
    float.fromhex(digits)
    for digits in (
        "0x1.2f0d8ef234f70p-3",
        "0x1.39a0f4f5f828fp-3",
        "0x1.7466462d33713p-3",
        "0x1.c71c51e7f3125p-3",
        "0x1.2492494217a8bp-2",
        "0x1.999999997fb31p-2",
        "0x1.5555555555593p-1",
    )
)

_MANTISSA = np.uint64((1 << 52) - 1)
_ONE = np.uint64(0x3FF0000000000000)
_ROOT_HALF = np.uint64(0x3FE6A09E00000000)
"""Bits of a number just below sqrt(1/2): where mantissas are cut."""


def exp(x: Float64Array) -> Float64Array:
    """e^x for each x [N] from −708 to 709, 0 below (−inf included); none may be NaN.

    x = n ln 2 + r with |r| ≤ ln 2 / 2, then e^x = 2^n (1 + r + r² P(r)).
    """
    clamped = np.maximum(x, _LOWEST_EXPONENT)
    shifted = clamped * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = clamped - n * _LN2_HIGH
    r = r - n * _LN2_LOW
    mantissa = (_polynomial(_EXP_COEFFICIENTS, r) * (r * r) + r) + 1.0
    power = ((shifted.view(np.uint64) + np.uint64(1023)) << np.uint64(52)).view(np.float64)
    return np.where(x < _LOWEST_EXPONENT, 0.0, mantissa * power)


def log(x: Float64Array) -> Float64Array:
    """Natural logarithm of each x [N], which must be positive, normal and finite.

    x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); with s = f / (2 + f) and z = s²,
    ln(1 + f) = 2 atanh(s) = f − s (f − z Q(z)).
    """
    bits = x.view(np.uint64) + (_ONE - _ROOT_HALF)
    k = (bits >> np.uint64(52)).astype(np.float64) - 1023.0
    f = ((bits & _MANTISSA) + _ROOT_HALF).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    q = _polynomial(_LOG_COEFFICIENTS, z)
    logarithm: Float64Array = k * _LN2_HIGH + (f - (s * (f - z * q) - k * _LN2_LOW))
    return logarithm


def _polynomial(coefficients: tuple[float, ...], x: Float64Array) -> Float64Array:
    """Horner's scheme, the highest power first."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value
