// The exponential function, without the C library: its bits are ours on every machine.
#pragma once

#include "lanes.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

// e^x within 1 ulp of the true value for x in [-87.33, 88.37]; 0 below, infinity above, NaN for
// NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, then e^x = 2^n (1 + r + r^2 P(r)). P is the polynomial of
// degree 4 with the least greatest relative error (3e-9), found by weighted least squares.
ONEGLANCE_INLINE NativeFloats native_exp(NativeFloats x) {
  // Adding 1.5 * 2^23 rounds to an integer, ties to even, which then lies in the low bits.
  constexpr float kRounder = 12582912.0f;
  constexpr float kLog2E = 0x1.715476p+0f;
  // ln 2 in two parts; the high one has 9 bits, so that its product with n is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -0x1.bd0106p-13f;
  constexpr float kLowest = -87.3365f;
  constexpr float kHighest = 88.3762f;

  const NativeFloats shifted = x * kLog2E + kRounder;
  const NativeFloats n = shifted - kRounder;
  NativeFloats r = x - n * kLn2High;
  r = r - n * kLn2Low;

  NativeFloats p = native_broadcast(0x1.6a2352p-10f);
  p = p * r + 0x1.123a6cp-7f;
  p = p * r + 0x1.5558f4p-5f;
  p = p * r + 0x1.555490p-3f;
  p = p * r + 0x1.fffffcp-2f;
  const NativeFloats mantissa = (p * (r * r) + r) + 1.0f;

  const NativeBits exponent = (reinterpret_cast<NativeBits>(shifted) + 127u) << 23;
  NativeFloats result = mantissa * reinterpret_cast<NativeFloats>(exponent);
  result = x < native_broadcast(kLowest) ? NativeFloats{} : result;
  return x > native_broadcast(kHighest) ? native_broadcast(__builtin_inff()) : result;
}

ONEGLANCE_INLINE Lanes exp(const Lanes& x) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = native_exp(x.part[i]);
  return result;
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
