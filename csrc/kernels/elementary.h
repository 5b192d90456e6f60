// The exponential and the logarithm in double precision, without the C library: the same sequence
// of IEEE operations as src/oneglance/sampling/elementary.py, which says what it is and why.
#pragma once

#include "doubles.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr double kLn2High = 0x1.62e42fefa3000p-1;
constexpr double kLn2Low = 0x1.3de6af278ece6p-42;

// Within 1 ulp for x in [-708, 709]; 0 below.
ONEGLANCE_INLINE Doubles exp(const Doubles& x) {
  constexpr double kRounder = 0x1.8p+52;
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLowest = -708.0;
  constexpr double kCoefficients[] = {
      0x1.28ad9b8648615p-22, 0x1.71df25b30d420p-19, 0x1.a01999e26209fp-16, 0x1.a01a012a0f35cp-13,
      0x1.6c16c18438b11p-10, 0x1.1111111127d0ep-7,  0x1.555555555083ep-5,  0x1.55555555554f9p-3,
      0x1.000000000000ap-1};

  const NativeDoubles lowest = native_broadcast(kLowest);
  const Doubles clamped = each_part([&](int i) ONEGLANCE_LAMBDA {
    return x.part[i] < lowest ? lowest : x.part[i];
  });
  const Doubles shifted = clamped * broadcast(kLog2E) + broadcast(kRounder);
  const Doubles n = shifted - broadcast(kRounder);
  Doubles r = clamped - n * broadcast(kLn2High);
  r = r - n * broadcast(kLn2Low);

  Doubles p = broadcast(0x1.ad7f3ee5d2f80p-26);
  for (const double coefficient : kCoefficients) p = p * r + broadcast(coefficient);
  const Doubles mantissa = (p * (r * r) + r) + broadcast(1.0);
  return each_part([&](int i) ONEGLANCE_LAMBDA {
    const NativeWords power = (reinterpret_cast<NativeWords>(shifted.part[i]) + 1023u) << 52;
    const NativeDoubles result = mantissa.part[i] * reinterpret_cast<NativeDoubles>(power);
    return x.part[i] < lowest ? NativeDoubles{} : result;
  });
}

// Within 1 ulp for positive, normal, finite x.
ONEGLANCE_INLINE double log(double x) {
  constexpr uint64_t kOne = 0x3ff0000000000000u;
  constexpr uint64_t kRootHalf = 0x3fe6a09e00000000u;
  constexpr double kCoefficients[] = {0x1.39a0f4f5f828fp-3, 0x1.7466462d33713p-3,
                                      0x1.c71c51e7f3125p-3, 0x1.2492494217a8bp-2,
                                      0x1.999999997fb31p-2, 0x1.5555555555593p-1};
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits += kOne - kRootHalf;
  const double k = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  const uint64_t mantissa_bits = (bits & ((uint64_t{1} << 52) - 1)) + kRootHalf;
  double mantissa;
  std::memcpy(&mantissa, &mantissa_bits, sizeof mantissa);

  const double f = mantissa - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double q = 0x1.2f0d8ef234f70p-3;
  for (const double coefficient : kCoefficients) q = q * z + coefficient;
  return k * kLn2High + (f - (s * (f - z * q) - k * kLn2Low));
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
