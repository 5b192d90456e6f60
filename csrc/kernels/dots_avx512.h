// The dot products of dots.h for AVX-512 VNNI.
//
// vpdpbusd adds the products of four unsigned and four signed bytes to each 32-bit lane: a step of
// 16 outputs with four activations of one row. Signed 8-bit weights become unsigned by adding 128,
// which what the sums start from takes away again.

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kDotOutputs = 32;
// 16 registers of sums, beside the weights of a step and four activations.
constexpr int kMaxBlockRows = 8;
constexpr int kMaxChunkRows = 16;
constexpr int kAddedTo8Bits = 128;
using DotInts = int32_t __attribute__((vector_size(64)));

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA

#include "dots_32bit.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }

// Four activations in every 32-bit lane.
inline __m512i broadcast4(const int8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm512_set1_epi32(word);
}

template <int R>
inline void start_sums(const RowGroup* rows, int half, __m512i (&sums)[R][2]) {
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm512_set1_epi32(rows[r].start[half]);
}

// sums[r][v] += products of unsigned weights and activations k .. k + 3 of each row.
template <int R>
inline void add_products(__m512i w0, __m512i w1, const RowGroup* rows, int k,
                         __m512i (&sums)[R][2]) {
  for (int r = 0; r < R; ++r) {
    const __m512i four = broadcast4(rows[r].values + k);
    sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], w0, four);
    sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], w1, four);
  }
}

// Steps [begin, begin + Steps) of values that are bytes; `flip` makes them unsigned.
template <int Steps, int R>
inline void add_steps(const uint8_t* values, __m512i flip, const RowGroup* rows, int begin,
                      __m512i (&sums)[R][2]) {
#pragma GCC unroll 8
  for (int step = begin; step < begin + Steps; ++step) {
    const uint8_t* at = values + step * kStepBytes;
    add_products<R>(_mm512_xor_si512(load(at), flip), _mm512_xor_si512(load(at + 64), flip), rows,
                    4 * step, sums);
  }
}

template <Values V>
struct Dots {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        DotInts (&dot)[R][2]) {
    static_assert(V == Values::k5Bit || V == Values::k8Bit, "the others have code of their own");
    const __m512i flip = _mm512_set1_epi8(V == Values::k8Bit ? -kAddedTo8Bits : 0);
    __m512i sums[R][2];
    start_sums(rows, 0, sums);
    add_steps<8>(values, flip, rows, 0, sums);
    std::memcpy(dot, sums, sizeof sums);
  }
};

template <>
struct Dots<Values::k4Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        DotInts (&dot)[R][2]) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i sums[R][2];
    start_sums(rows, 0, sums);
#pragma GCC unroll 4
    for (int step = 0; step < 4; ++step, values += kStepBytes) {
      const __m512i w0 = load(values);
      const __m512i w1 = load(values + 64);
      add_products<R>(_mm512_and_si512(w0, low), _mm512_and_si512(w1, low), rows, 8 * step, sums);
      add_products<R>(_mm512_and_si512(_mm512_srli_epi16(w0, 4), low),
                      _mm512_and_si512(_mm512_srli_epi16(w1, 4), low), rows, 8 * step + 4, sums);
    }
    std::memcpy(dot, sums, sizeof sums);
  }
};

// Sixteen signed bytes as floats. (With masks for the reason given in lanes.h.)
inline __m512 float_scales(const uint8_t* bytes) {
  const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, narrow));
}

// The halves are put together as floats: multiplications of 32-bit integers take twice as long. All
// of it stays below 2^24, so that each step is exact, the fused one too.
template <>
constexpr bool has_float_dots<Values::k6Bit> = true;

template <>
struct Dots<Values::k6Bit> {
  template <int R, typename Floats>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t* scales,
                        Floats (&dot)[R][2]) {
    const __m512i unsigned_already = _mm512_setzero_si512();
    __m512i sums[2][R][2];
    __m512 scale[2][2];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, scales += kTile) {
      start_sums(rows, half, sums[half]);
      add_steps<4>(values, unsigned_already, rows, 4 * half, sums[half]);
      for (int v = 0; v < 2; ++v) scale[half][v] = float_scales(scales + 16 * v);
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < 2; ++v) {
        const __m512 first = _mm512_maskz_cvtepi32_ps(0xffff, sums[0][r][v]);
        const __m512 second = _mm512_maskz_cvtepi32_ps(0xffff, sums[1][r][v]);
        const __m512 sum =
            _mm512_fmadd_ps(second, scale[1][v], _mm512_mul_ps(first, scale[0][v]));
        std::memcpy(&dot[r][v], &sum, sizeof sum);
      }
    }
  }
};

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
