// Included before everything else in isa_avx512.cpp, for a CPU that lacks AVX-512: SIMDe has a
// function in the place of each instruction. One that is not named here does not compile.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/xor.h>

// Not in every version of SIMDe. Masks are all ones here.
static inline __attribute__((always_inline)) __m512 emulated_cvtph(__m256i halves) {
  __m512 floats;
  const __m256 parts[2] = {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                           _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  __builtin_memcpy(&floats, parts, sizeof floats);
  return floats;
}
static inline __attribute__((always_inline)) __m256i emulated_cvtps(__m512 floats) {
  __m256 parts[2];
  __builtin_memcpy(parts, &floats, sizeof parts);
  return _mm256_setr_m128i(_mm256_cvtps_ph(parts[0], _MM_FROUND_TO_NEAREST_INT),
                           _mm256_cvtps_ph(parts[1], _MM_FROUND_TO_NEAREST_INT));
}
static inline __attribute__((always_inline)) __m512i emulated_joined(__m256i low, __m256i high) {
  __m512i ints;
  const __m256i parts[2] = {low, high};
  __builtin_memcpy(&ints, parts, sizeof ints);
  return ints;
}
static inline __attribute__((always_inline)) __m512i emulated_cvtepi8(__m128i bytes) {
  return emulated_joined(_mm256_cvtepi8_epi32(bytes),
                         _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
}
static inline __attribute__((always_inline)) __m512i emulated_cvtepu8(__m128i bytes) {
  return emulated_joined(_mm256_cvtepu8_epi32(bytes),
                         _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
}
static inline __attribute__((always_inline)) __m512 emulated_cvtepi32(__m512i ints) {
  __m512 floats;
  __m256i parts[2];
  __builtin_memcpy(parts, &ints, sizeof parts);
  const __m256 converted[2] = {_mm256_cvtepi32_ps(parts[0]), _mm256_cvtepi32_ps(parts[1])};
  __builtin_memcpy(&floats, converted, sizeof floats);
  return floats;
}
static inline __attribute__((always_inline)) __m512i emulated_mul_epu32(__m512i a, __m512i b) {
  __m256i x[2], y[2];
  __builtin_memcpy(x, &a, sizeof x);
  __builtin_memcpy(y, &b, sizeof y);
  return emulated_joined(_mm256_mul_epu32(x[0], y[0]), _mm256_mul_epu32(x[1], y[1]));
}
#undef _mm512_maskz_cvtph_ps
#define _mm512_maskz_cvtph_ps(mask, halves) emulated_cvtph(halves)
#undef _mm512_maskz_cvtps_ph
#define _mm512_maskz_cvtps_ph(mask, floats, rounding) emulated_cvtps(floats)
#undef _mm512_maskz_cvtepi8_epi32
#define _mm512_maskz_cvtepi8_epi32(mask, bytes) emulated_cvtepi8(bytes)
#undef _mm512_maskz_cvtepu8_epi32
#define _mm512_maskz_cvtepu8_epi32(mask, bytes) emulated_cvtepu8(bytes)
#undef _mm512_maskz_cvtepi32_ps
#define _mm512_maskz_cvtepi32_ps(mask, ints) emulated_cvtepi32(ints)
#undef _mm512_maskz_mul_epu32
#define _mm512_maskz_mul_epu32(mask, a, b) emulated_mul_epu32(a, b)
