// The dot products of dots.h for NEON with the dot product extension.
//
// sdot adds the products of four signed bytes each to every 32-bit lane: four outputs with four
// activations of one row, which it picks from a register of sixteen. Values of 4, 5 and 6 bits are
// signed as they are.

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kDotOutputs = 16;
// 16 registers of sums, beside the weights of two steps and sixteen activations of each row.
constexpr int kMaxBlockRows = 4;
constexpr int kMaxChunkRows = 12;
constexpr int kAddedTo8Bits = 0;
using DotInts = int32_t __attribute__((vector_size(16)));

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA

#include "dots_32bit.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

inline int8x16_t load(const void* from) { return vld1q_s8(static_cast<const int8_t*>(from)); }

// Sixteen activations of each row.
template <int R>
inline void load_rows(const RowGroup* rows, int half, int8x16_t (&x)[R]) {
  for (int r = 0; r < R; ++r) x[r] = load(rows[r].values + 16 * half);
}

template <int R>
inline void start_sums(const RowGroup* rows, int half, int32x4_t (&sums)[R][4]) {
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 4; ++v) sums[r][v] = vdupq_n_s32(rows[r].start[half]);
  }
}

// sums[r][v] += products of weights with the Four-th four of the sixteen activations of each row.
template <int Four, int R>
inline void add_products(const int8x16_t (&w)[4], const int8x16_t (&x)[R],
                         int32x4_t (&sums)[R][4]) {
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 4; ++v) sums[r][v] = vdotq_laneq_s32(sums[r][v], w[v], x[r], Four);
  }
}

// The four steps of half a group of values that are bytes.
template <int Four = 0, int R>
inline void add_half(const uint8_t* values, const int8x16_t (&x)[R], int32x4_t (&sums)[R][4]) {
  if constexpr (Four < 4) {
    int8x16_t w[4];
    for (int v = 0; v < 4; ++v) w[v] = load(values + 16 * v);
    add_products<Four>(w, x, sums);
    add_half<Four + 1>(values + kStepBytes, x, sums);
  }
}

template <Values V>
struct Dots {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        DotInts (&dot)[R][4]) {
    static_assert(V == Values::k5Bit || V == Values::k8Bit, "the others have code of their own");
    int32x4_t sums[R][4];
    start_sums(rows, 0, sums);
    for (int half = 0; half < 2; ++half) {
      int8x16_t x[R];
      load_rows(rows, half, x);
      add_half(values + 4 * half * kStepBytes, x, sums);
    }
    std::memcpy(dot, sums, sizeof sums);
  }
};

template <>
struct Dots<Values::k4Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t*,
                        DotInts (&dot)[R][4]) {
    int32x4_t sums[R][4];
    start_sums(rows, 0, sums);
    for (int half = 0; half < 2; ++half, values += 2 * kStepBytes) {
      int8x16_t x[R];
      load_rows(rows, half, x);
      add_step<0>(values, x, sums);
      add_step<2>(values + kStepBytes, x, sums);
    }
    std::memcpy(dot, sums, sizeof sums);
  }

 private:
  // A step holds eight inputs, from the Four-th four of the sixteen on.
  template <int Four, int R>
  static inline void add_step(const uint8_t* values, const int8x16_t (&x)[R],
                              int32x4_t (&sums)[R][4]) {
    int8x16_t low[4], high[4];
    for (int v = 0; v < 4; ++v) {
      const uint8x16_t both = vld1q_u8(values + 16 * v);
      low[v] = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
      high[v] = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
    }
    add_products<Four>(low, x, sums);
    add_products<Four + 1>(high, x, sums);
  }
};

// Sixteen signed bytes as 32 bits each.
inline void widen(const uint8_t* bytes, int32x4_t (&wide)[4]) {
  const int8x16_t narrow = load(bytes);
  const int16x8_t low = vmovl_s8(vget_low_s8(narrow));
  const int16x8_t high = vmovl_high_s8(narrow);
  wide[0] = vmovl_s16(vget_low_s16(low));
  wide[1] = vmovl_high_s16(low);
  wide[2] = vmovl_s16(vget_low_s16(high));
  wide[3] = vmovl_high_s16(high);
}

template <>
struct Dots<Values::k6Bit> {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t* scales,
                        DotInts (&dot)[R][4]) {
    int32x4_t total[R][4] = {};
    for (int half = 0; half < 2; ++half, scales += kTile) {
      int32x4_t sums[R][4];
      int8x16_t x[R];
      start_sums(rows, half, sums);
      load_rows(rows, half, x);
      add_half(values + 4 * half * kStepBytes, x, sums);
      int32x4_t s[4];
      widen(scales, s);
      for (int r = 0; r < R; ++r) {
        for (int v = 0; v < 4; ++v) total[r][v] = vmlaq_s32(total[r][v], sums[r][v], s[v]);
      }
    }
    std::memcpy(dot, total, sizeof total);
  }
};

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
