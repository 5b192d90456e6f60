// Sixteen floats that are computed side by side: the shape of every loop in these kernels.
//
// A lane never meets another lane: each operation is one IEEE operation per lane, so the bits do
// not depend on how many of them the instruction set does at once. Included once per instruction
// set.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(ONEGLANCE_HAS_NEON_DOT)
#include <arm_neon.h>
#endif

#include "../always_inline.h"
#include "../half.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kLanes = 16;
#if defined(ONEGLANCE_HAS_AVX512)
constexpr int kNativeLanes = 16;
#elif defined(__AVX__)
constexpr int kNativeLanes = 8;
#else
constexpr int kNativeLanes = 4;
#endif
constexpr int kParts = kLanes / kNativeLanes;

typedef float NativeFloats __attribute__((vector_size(kNativeLanes * sizeof(float))));
// The same anywhere in memory.
typedef float LooseFloats __attribute__((vector_size(kNativeLanes * sizeof(float)),
                                         aligned(alignof(float)), may_alias));
typedef uint32_t NativeBits __attribute__((vector_size(kNativeLanes * sizeof(uint32_t))));

struct Lanes {
  NativeFloats part[kParts];
};

ONEGLANCE_INLINE NativeFloats native_broadcast(float value) { return value - NativeFloats{}; }

ONEGLANCE_INLINE Lanes broadcast(float value) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = native_broadcast(value);
  return result;
}

ONEGLANCE_INLINE Lanes load(const float* source) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) {
    result.part[i] = *reinterpret_cast<const LooseFloats*>(source + i * kNativeLanes);
  }
  return result;
}

// Sixteen halves, each converted exactly.
ONEGLANCE_INLINE Lanes load(const uint16_t* source) {
  Lanes result;
#if defined(ONEGLANCE_HAS_AVX512)
  const auto* halves = reinterpret_cast<const __m256i*>(source);
  // (The forms without a mask make GCC 12 warn of uninitialised values in its own header.)
  const __m512 floats = _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(halves));
  result.part[0] = reinterpret_cast<NativeFloats>(floats);
#elif defined(ONEGLANCE_HAS_NEON_DOT)
  for (int i = 0; i < kParts; ++i) {
    const float16x4_t halves = vreinterpret_f16_u16(vld1_u16(source + i * kNativeLanes));
    result.part[i] = reinterpret_cast<NativeFloats>(vcvt_f32_f16(halves));
  }
#elif defined(__F16C__)
  for (int i = 0; i < kParts; ++i) {
    const auto* halves = reinterpret_cast<const __m128i*>(source + i * kNativeLanes);
    result.part[i] = reinterpret_cast<NativeFloats>(_mm256_cvtph_ps(_mm_loadu_si128(halves)));
  }
#else
  // The cases of half_to_float as selections, which the compiler turns into lanes.
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t magnitude = source[i] & 0x7fffu;
    const uint32_t small = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t quiet = magnitude > 0x7c00u ? 1u << 22 : 0u;
    const uint32_t special = (magnitude << 13) | 0x7f800000u | quiet;
    const uint32_t finite = magnitude < 0x400u ? small : normal;
    const uint32_t bits = magnitude < 0x7c00u ? finite : special;
    values[i] = float_of(bits | static_cast<uint32_t>(source[i] & 0x8000u) << 16);
  }
  result = load(values);
#endif
  return result;
}

// Sixteen bytes as numbers. (As whole vectors where there are instructions for it: left to itself GCC
// makes halves of them, and a load of the whole waits for both stores.)
ONEGLANCE_INLINE Lanes load_bytes(const uint8_t* source) {
  Lanes result;
#if defined(ONEGLANCE_HAS_AVX512)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
  const __m512i whole = _mm512_maskz_cvtepu8_epi32(0xffff, bytes);
  result.part[0] = reinterpret_cast<NativeFloats>(_mm512_maskz_cvtepi32_ps(0xffff, whole));
#else
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(source[i]);
  static_assert(sizeof result == sizeof values, "lanes are nothing but floats");
  std::memcpy(&result, values, sizeof values);
#endif
  return result;
}

ONEGLANCE_INLINE void store(float* target, const Lanes& lanes) {
  for (int i = 0; i < kParts; ++i) {
    *reinterpret_cast<LooseFloats*>(target + i * kNativeLanes) = lanes.part[i];
  }
}

// Rounds to the nearest half, ties to even.
ONEGLANCE_INLINE void store(uint16_t* target, const Lanes& lanes) {
#if defined(ONEGLANCE_HAS_AVX512)
  const auto floats = reinterpret_cast<__m512>(lanes.part[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                      _mm512_maskz_cvtps_ph(0xffff, floats, _MM_FROUND_TO_NEAREST_INT));
#elif defined(ONEGLANCE_HAS_NEON_DOT)
  for (int i = 0; i < kParts; ++i) {
    const auto floats = reinterpret_cast<float32x4_t>(lanes.part[i]);
    vst1_u16(target + i * kNativeLanes, vreinterpret_u16_f16(vcvt_f16_f32(floats)));
  }
#elif defined(__F16C__)
  for (int i = 0; i < kParts; ++i) {
    const auto floats = reinterpret_cast<__m256>(lanes.part[i]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i * kNativeLanes),
                     _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  float values[kLanes];
  store(values, lanes);
  for (int i = 0; i < kLanes; ++i) target[i] = float_to_half(values[i]);
#endif
}

// The first `count` of sixteen floats, the rest `filler`.
ONEGLANCE_INLINE Lanes load_first(const float* source, int count, float filler) {
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = i < count ? source[i] : filler;
  return load(values);
}

ONEGLANCE_INLINE void store_first(float* target, int count, const Lanes& lanes) {
  float values[kLanes];
  store(values, lanes);
  for (int i = 0; i < count; ++i) target[i] = values[i];
}

ONEGLANCE_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = a.part[i] + b.part[i];
  return result;
}

ONEGLANCE_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = a.part[i] - b.part[i];
  return result;
}

ONEGLANCE_INLINE Lanes operator-(const Lanes& a) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = -a.part[i];
  return result;
}

ONEGLANCE_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = a.part[i] * b.part[i];
  return result;
}

ONEGLANCE_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) result.part[i] = a.part[i] / b.part[i];
  return result;
}

ONEGLANCE_INLINE Lanes larger(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int i = 0; i < kParts; ++i) {
    result.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
  }
  return result;
}

// The sum of the lanes by one fixed tree: lane l gets lane l + 8, then l + 4, l + 2, l + 1.
ONEGLANCE_INLINE float sum_of_lanes(const Lanes& lanes) {
  float values[kLanes];
  store(values, lanes);
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) values[i] = values[i] + values[i + width];
  }
  return values[0];
}

ONEGLANCE_INLINE float largest_lane(const Lanes& lanes) {
  float values[kLanes];
  store(values, lanes);
  float largest = values[0];
  for (int i = 1; i < kLanes; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
