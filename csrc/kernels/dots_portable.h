// The dot products of dots.h in vectors of 16 bytes, which the compiler maps to whatever there is.
#include "dots_16bit.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kDotOutputs = 16;
constexpr int kMaxBlockRows = 4;
constexpr int kMaxChunkRows = 12;
using DotInts = int32_t __attribute__((vector_size(32)));

inline void set_half_biases(RowGroup& group) {
  for (int half = 0; half < 2; ++half) {
    for (int lane = 0; lane < 2; ++lane) {
      int sum = 0;
      for (int k = 16 * half + 2 * lane; k < 16 * half + 16; k += 4) {
        sum += group.values[k] + group.values[k + 1];
      }
      group.bias[half][lane] = static_cast<int16_t>(-kMiddle6 * sum);
    }
  }
}
inline void set_group_bias(RowGroup& group) {
  for (int lane = 0; lane < 2; ++lane) {
    int sum = 0;
    for (int k = 2 * lane; k < kGroup; k += 4) sum += group.values[k] + group.values[k + 1];
    group.bias[0][lane] = static_cast<int16_t>(-kMiddle5 * sum);
  }
}

// Vectors that every instruction set of interest has. The four bytes of an output are two 16-bit
// lanes, whose even and odd bytes are taken out by shifts; a lane adds two products of each step.
using Shorts8 = int16_t __attribute__((vector_size(16)));
using Words8 = uint16_t __attribute__((vector_size(16)));
using Ints4 = int32_t __attribute__((vector_size(16)));

// Adds the products of one step with 16 outputs.
template <Values V>
inline void add_products(const uint8_t* values, const int8_t* x, Shorts8 (&sums)[4]) {
  const int16_t x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
  const Shorts8 even = {x0, x2, x0, x2, x0, x2, x0, x2};
  const Shorts8 odd = {x1, x3, x1, x3, x1, x3, x1, x3};
  for (int i = 0; i < 4; ++i) {
    if constexpr (V == Values::k8Bit) {
      Shorts8 w;
      std::memcpy(&w, values + 16 * i, sizeof w);
      sums[i] += ((w << 8) >> 8) * even + (w >> 8) * odd;
    } else {
      Words8 w;
      std::memcpy(&w, values + 16 * i, sizeof w);
      sums[i] += reinterpret_cast<Shorts8>(w & 255) * even;
      sums[i] += reinterpret_cast<Shorts8>(w >> 8) * odd;
    }
  }
}

// The same for 4-bit values, of which a step holds eight inputs.
template <>
inline void add_products<Values::k4Bit>(const uint8_t* values, const int8_t* x,
                                        Shorts8 (&sums)[4]) {
  uint8_t nibbles[64];
  for (int shift = 0; shift < 8; shift += 4, x += 4) {
    for (int b = 0; b < 64; ++b) nibbles[b] = (values[b] >> shift) & 15;
    add_products<Values::k5Bit>(nibbles, x, sums);
  }
}

// total[o] += scale[o] * (start + both sums of output o); without scales they are 1.
inline void fold(const Shorts8 (&sums)[4], const int8_t* scales, int32_t start,
                 Ints4 (&total)[4]) {
  for (int i = 0; i < 4; ++i) {
    const Ints4 both = reinterpret_cast<Ints4>(sums[i]);
    Ints4 sum = (both >> 16) + ((both << 16) >> 16) + start;
    if (scales) {
      const int8_t* s = scales + 4 * i;
      sum *= Ints4{s[0], s[1], s[2], s[3]};
    }
    total[i] += sum;
  }
}

template <Values V>
inline void dot16(const uint8_t* values, const RowGroup& row, const int8_t* scales,
                  Ints4 (&total)[4]) {
  // Steps whose sums fit into 16 bits: see the bounds above, here without wrapping.
  constexpr int safe = V == Values::k8Bit ? 1 : V == Values::k6Bit ? 2 : 4;
  constexpr int steps = V == Values::k4Bit ? 4 : 8;
  for (int first = 0; first < steps; first += safe) {
    Shorts8 sums[4] = {};
    for (int step = first; step < first + safe; ++step) {
      add_products<V>(values + step * kStepBytes, row.values + step * (kGroup / steps), sums);
    }
    // The biases: of 5 bits one for the group, of 6 bits one for each half.
    int32_t start = 0;
    const int half = first / 4;
    if (V == Values::k5Bit ? first == 0 : V == Values::k6Bit && first % 4 == 0) {
      start = row.bias[half][0] + row.bias[half][1];
    }
    fold(sums, V == Values::k6Bit ? scales + half * kTile : nullptr, start, total);
  }
}

template <Values V>
struct Dots {
  template <int R>
  static inline void of(const uint8_t* values, const RowGroup* rows, const uint8_t* scales,
                        DotInts (&dot)[R][2]) {
    for (int r = 0; r < R; ++r) {
      Ints4 total[4] = {};
      dot16<V>(values, rows[r], reinterpret_cast<const int8_t*>(scales), total);
      std::memcpy(dot[r], total, sizeof total);
    }
  }
};

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
