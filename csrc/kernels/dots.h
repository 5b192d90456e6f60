// Exact integer dot products of a group: 16 outputs of a tile with R rows of activations.
// Included once per instruction set.
//
// `Dots<V>::of<R>(values, rows, scales, dot)`: values points at the first of the 16 outputs in the
// group (5- and 6-bit values: unpacked to bytes), rows at R rows of the group; dot[r][v] receives
// outputs 8v .. 8v + 7. They are products with q, with q - 16 for 5 bits; for 6 bits, with q - 32,
// dot0 and dot1 of the halves give the result sc0 * dot0 + sc1 * dot1, for which `scales`
// holds the group's i8 sc[2][kTile] from the first of the 16 outputs on; it is unused otherwise.
//
// 16-bit sums are exact. A vpmaddubsw lane adds two products of bytes, |activation| <= 127, and
// must not saturate: at most 2 * 127 * 63 = 16002 for 4, 5 and 6 bits, 2 * 127 * 128 = 32512 for 8.
// The plain 16-bit additions after it may wrap, as long as the final sum fits into 16 bits:
//   4 bits, 0..15, whole group:   16 products, at most 16 * 127 * 15 = 30480
//   5 bits, -16..15, whole group: 16 products, at most 16 * 127 * 16 = 32512
//   6 bits, -32..31, half group:   8 products, at most  8 * 127 * 32 = 32512
//   8 bits: each is widened alone
// 5 and 6 bits are stored unsigned; their sums start from a bias, -16 or -32 times the sum of a
// lane's activations, which makes them those of the signed values.

namespace oneglance::ONEGLANCE_ISA {
namespace {

// GCC and Clang lower these to whatever the instruction set has; lanes are independent outputs.
using Floats8 = float __attribute__((vector_size(32)));
using Ints8 = int32_t __attribute__((vector_size(32)));

constexpr int kStepBytes = 4 * kTile;  // four inputs of all outputs of a tile, as bytes
constexpr int kMiddle5 = 16;           // what the bias subtracts from 5-bit values
constexpr int kMiddle6 = 32;           // and from 6-bit values

// One group of one row of activations: a cache line.
struct alignas(64) RowGroup {
  int8_t values[kGroup];
  float scale;
  float scaled_sum;  // scale * sum
  int32_t offset;    // what the dot product has too much: zero point (less the middle) * sum
  int16_t bias[2][2];  // by half of the group and 16-bit lane (k % 4 below 2, or not); 5 bits: [0]
};

// bias[0] for both halves of the group, 5-bit values.
inline void set_group_bias(RowGroup& group);
// bias[h] for each half, 6-bit values.
inline void set_half_biases(RowGroup& group);

template <Values V>
struct Dots;

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA

#if defined(__AVX2__)
#include "dots_avx2.h"
#else
#include "dots_portable.h"
#endif
