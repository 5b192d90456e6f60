// Exact integer dot products of a group: some outputs of a tile with R rows of activations.
// Included once per instruction set.
//
// Each instruction set has a file of its own, chosen by the macros of isa_*.cpp, with
//   kDotOutputs, DotInts         outputs that one call computes, and a vector of their dots
//   kMaxBlockRows                rows whose sums stay in registers
//   kMaxChunkRows                rows that a tile's weights are streamed past at once
//   set_biases, has_offset, has_float_dots, Dots   what follows
// `Dots<V>::of<R>(values, rows, scales, dot)`: values points at the first of the outputs in the
// group (5- and 6-bit values: unpacked to bytes), rows at R rows of the group; dot[r][v] receives
// the v-th vector of them. Less the row's offset, where has_offset says so, they are
// products with q - zero_point; for 6 bits dot0 and dot1 of the halves give the result
// sc0 * dot0 + sc1 * dot1, for which `scales` holds the group's i8 sc[2][kTile] from the first of
// the outputs on; it is unused otherwise.
//
// Sums of 32 bits need no care; those of 16 bits (AVX2, portable) are exact too. A vpmaddubsw lane
// adds two products of bytes, |activation| <= 127, and must not saturate: at most
// 2 * 127 * 63 = 16002 for 4, 5 and 6 bits, 2 * 127 * 128 = 32512 for 8.
// The plain 16-bit additions after it may wrap, as long as the final sum fits into 16 bits:
//   4 bits, 0..15, whole group:   16 products, at most 16 * 127 * 15 = 30480
//   5 bits, -16..15, whole group: 16 products, at most 16 * 127 * 16 = 32512
//   6 bits, -32..31, half group:   8 products, at most  8 * 127 * 32 = 32512
//   8 bits: each is widened alone
// 5 and 6 bits are stored unsigned; their 16-bit sums start from a bias, -16 or -32 times the sum
// of a lane's activations, which makes them those of the signed values. 32-bit sums start from
// what makes them right at once.

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kStepBytes = 4 * kTile;  // four inputs of all outputs of a tile, as bytes

// One group of one row of activations: a cache line.
struct alignas(64) RowGroup {
  int8_t values[kGroup];
  float scale;
  float scaled_sum;  // scale * sum
  // For sums of 32 bits, which start from it: 6 bits by half of the group, otherwise [0].
  int32_t start[2];
  // For sums of 16 bits.
  int32_t offset;    // what the dot product has too much: zero point (less the middle) * sum
  int16_t bias[2][2];  // by half of the group and 16-bit lane (k % 4 below 2, or not); 5 bits: [0]
};

// Fills in what follows from the values and their sum.
inline void set_biases(RowGroup& group, const PackedMatrix& w, int32_t sum);

template <Values V>
struct Dots;

// Whether its dots come as vectors of floats, whole numbers too, in the place of DotInts.
template <Values V>
constexpr bool has_float_dots = false;

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA

#if defined(ONEGLANCE_HAS_AVX512)
#include "dots_avx512.h"
#elif defined(__AVX2__)
#include "dots_avx2.h"
#elif defined(ONEGLANCE_HAS_NEON_DOT)
#include "dots_neon.h"
#else
#include "dots_portable.h"
#endif
