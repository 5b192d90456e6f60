// The dot products of dots.h for AVX2.
#include "dots_16bit.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kDotOutputs = 16;
constexpr int kMaxBlockRows = 4;
constexpr int kMaxChunkRows = 12;
using Ints8 = int32_t __attribute__((vector_size(32)));
using DotInts = Ints8;

inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
// Four activations in every 32-bit lane.
inline __m256i broadcast4(const int8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm256_set1_epi32(word);
}
inline __m256i widen(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
inline Ints8 as_ints(__m256i value) { return reinterpret_cast<Ints8>(value); }

// Keeps a value in a register as it is. Without it GCC rebalances the unrolled sums into trees,
// whose many terms don't fit into 16 registers.
inline void pin(__m256i& value) { __asm__("" : "+x"(value)); }

// sums[r][v] += 16-bit products of unsigned weights and activations k .. k + 3 of each row.
template <int R>
inline void add_products(__m256i w0, __m256i w1, const RowGroup* rows, int k,
                         __m256i (&sums)[R][2]) {
  for (int r = 0; r < R; ++r) {
    const __m256i four = broadcast4(rows[r].values + k);
    sums[r][0] = _mm256_add_epi16(sums[r][0], _mm256_maddubs_epi16(w0, four));
    pin(sums[r][0]);
    sums[r][1] = _mm256_add_epi16(sums[r][1], _mm256_maddubs_epi16(w1, four));
    pin(sums[r][1]);
  }
}

// Eight signed bytes, each twice as 16 bits in its 32-bit lane.
inline __m256i scale_pairs(const uint8_t* scales) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales));
  const __m256i lanes = _mm256_and_si256(_mm256_cvtepi8_epi32(bytes), _mm256_set1_epi32(0xffff));
  return _mm256_or_si256(lanes, _mm256_slli_epi32(lanes, 16));
}

template <>
struct Dots<Values::k4Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        Ints8 (&dot)[R][2]) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i sums[R][2] = {};
#pragma GCC unroll 4
    for (int step = 0; step < 4; ++step, values += kStepBytes) {
      __m256i w0 = load(values);
      __m256i w1 = load(values + 32);
      pin(w0);  // else it is loaded once for each half
      pin(w1);
      add_products<R>(_mm256_and_si256(w0, low), _mm256_and_si256(w1, low), rows, 8 * step, sums);
      add_products<R>(_mm256_and_si256(_mm256_srli_epi16(w0, 4), low),
                      _mm256_and_si256(_mm256_srli_epi16(w1, 4), low), rows, 8 * step + 4, sums);
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < 2; ++v) dot[r][v] = as_ints(widen(sums[r][v]));
    }
  }
};

// Sums of the activations of a half group by 16-bit lane, in every 32-bit lane of a 128-bit half.
inline __m256i lane_sums(const RowGroup& group) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load(group.values));
  const __m256i fours = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
  return _mm256_add_epi16(fours, _mm256_shuffle_epi32(fours, 0xb1));
}
inline void set_half_biases(RowGroup& group) {
  const __m256i bias = _mm256_mullo_epi16(lane_sums(group), _mm256_set1_epi16(-kMiddle6));
  const int32_t words[2] = {_mm256_extract_epi32(bias, 0), _mm256_extract_epi32(bias, 4)};
  std::memcpy(group.bias, words, sizeof words);
}
inline void set_group_bias(RowGroup& group) {
  const __m256i halves = lane_sums(group);
  const __m256i both = _mm256_add_epi16(halves, _mm256_permute2x128_si256(halves, halves, 1));
  const __m256i bias = _mm256_mullo_epi16(both, _mm256_set1_epi16(-kMiddle5));
  const int32_t word = _mm256_extract_epi32(bias, 0);
  std::memcpy(group.bias[0], &word, sizeof word);
}

// Steps [begin, begin + Steps) of values that are bytes, added to each row's bias.
template <int R, int Steps>
inline void biased_sums(const uint8_t* values, const RowGroup* rows, int begin, int half,
                        __m256i (&sums)[R][2]) {
  for (int r = 0; r < R; ++r) {
    int32_t bias;
    std::memcpy(&bias, rows[r].bias[half], sizeof bias);
    sums[r][0] = sums[r][1] = _mm256_set1_epi32(bias);
  }
#pragma GCC unroll 8
  for (int step = 0; step < Steps; ++step) {
    const uint8_t* at = values + (begin + step) * kStepBytes;
    add_products<R>(load(at), load(at + 32), rows, 4 * (begin + step), sums);
  }
}

template <>
struct Dots<Values::k5Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        Ints8 (&dot)[R][2]) {
    __m256i sums[R][2];
    biased_sums<R, 8>(values, rows, 0, 0, sums);
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < 2; ++v) dot[r][v] = as_ints(widen(sums[r][v]));
    }
  }
};

template <>
struct Dots<Values::k6Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t* scales,
                        Ints8 (&dot)[R][2]) {
    __m256i sums[R][2];
    biased_sums<R, 4>(values, rows, 0, 0, sums);
    for (int v = 0; v < 2; ++v) {
      const __m256i pairs = scale_pairs(scales + 8 * v);
      for (int r = 0; r < R; ++r) dot[r][v] = as_ints(_mm256_madd_epi16(sums[r][v], pairs));
    }
    biased_sums<R, 4>(values, rows, 4, 1, sums);
    for (int v = 0; v < 2; ++v) {
      const __m256i pairs = scale_pairs(scales + kTile + 8 * v);
      for (int r = 0; r < R; ++r) dot[r][v] += as_ints(_mm256_madd_epi16(sums[r][v], pairs));
    }
  }
};

template <>
struct Dots<Values::k8Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        Ints8 (&dot)[R][2]) {
    __m256i sums[R][2] = {};
#pragma GCC unroll 8
    for (int step = 0; step < 8; ++step, values += kStepBytes) {
      const __m256i w[2] = {load(values), load(values + 32)};
      const __m256i magnitude[2] = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
      for (int r = 0; r < R; ++r) {
        const __m256i four = broadcast4(rows[r].values + 4 * step);
        for (int v = 0; v < 2; ++v) {
          const __m256i pairs = _mm256_maddubs_epi16(magnitude[v], _mm256_sign_epi8(four, w[v]));
          sums[r][v] = _mm256_add_epi32(sums[r][v], widen(pairs));
          pin(sums[r][v]);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < 2; ++v) dot[r][v] = as_ints(sums[r][v]);
    }
  }
};

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
