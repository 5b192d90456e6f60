// IEEE half precision to and from float, exact and rounded to nearest even.
//
// Everything here has internal linkage: the file is compiled into sources of several instruction
// sets, and the linker must not merge their copies.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace oneglance {
namespace {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float half_to_float(uint16_t half) {
#if defined(__F16C__)
  return _cvtsh_ss(half);
#else
  // Selections instead of branches, so that loops over it are vectorised.
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t shifted = magnitude << 13;
  const uint32_t small = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t normal = shifted + (112u << 23);
  // Infinity, or a NaN, which becomes quiet.
  const uint32_t special = shifted | 0x7f800000u | (magnitude > 0x7c00u ? 0x400000u : 0u);
  const uint32_t bits = magnitude < 0x400u ? small : magnitude >= 0x7c00u ? special : normal;
  return float_of(bits | (static_cast<uint32_t>(half & 0x8000u) << 16));
#endif
}

inline uint16_t float_to_half(float value) {
#if defined(__F16C__)
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
#else
  const uint32_t bits = bits_of(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keeps its upper bits, becomes quiet
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on
  if (magnitude < 0x38800000u) {  // below 2^-14: the float addition rounds to multiples of 2^-24
    const float rounded = float_of(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(rounded) - bits_of(0.5f)));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
#endif
}

}  // namespace
}  // namespace oneglance
