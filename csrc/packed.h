// Packed weights and quantised activations: what the matrix kernels read.
//
// A matrix is [outputs, inputs]. Outputs are tiled by 32 (the last tile is padded with zeros),
// inputs grouped by 32. A tile is one sequential stream, its groups in order:
//
//   [run of 8 groups: half-precision scales]   only kSuper (d[32], dmin[32]) and kSuper16 (d[32])
//   group: values, then its scales
//
// Values in groups of 32 inputs (k counts inside the group, o is the output in the tile):
//   k4Bit  4 steps j of [32 outputs o][4 bytes i]: low nibble k = 8j + i, high k = 8j + 4 + i
//   k5Bit  the lower 4 bits like k4Bit, then [32 outputs o][4 bytes i]: bit t is the fifth bit of
//          k = 4t + i
//   k6Bit  the lower 4 bits like k4Bit, then 2 times b [32 outputs o][4 bytes i]: bits 2t, 2t + 1
//          are the upper two of k = 16b + 4t + i
//   k8Bit  8 steps j of [32 outputs o][4 bytes i]: k = 4j + i, signed
//   kBf16  [k][32 outputs o] upper halves of float32
//   kF32   [k][32 outputs o] float32
// The scales of a group:
//   kHalf     f16 d[32]                   w = d * (q - zero_point)
//   kHalfMin  f16 d[32], f16 m[32]        w = d * q + m
//   kSuper    u8 sc[32], u8 mn[32]        w = (d * sc) * q - dmin * mn
//   kSuper16  i8 sc[2][32], per 16 inputs w = (d * sc) * (q - zero_point)
//   kNone     nothing                     w is the value; only kBf16 and kF32
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "always_inline.h"

namespace oneglance {

constexpr int kTile = 32;
constexpr int kGroup = 32;
constexpr int kRunGroups = 8;
constexpr int kMaxPlanes = 2;

enum class Values : uint8_t { k4Bit, k5Bit, k6Bit, k8Bit, kBf16, kF32 };

enum class Scales : uint8_t { kHalf, kHalfMin, kSuper, kSuper16, kNone };

// Whether these are numbers as they are: their products take activations as float32.
constexpr bool is_float(Values values) {
  return values == Values::kBf16 || values == Values::kF32;
}

constexpr int value_bytes(Values values) {
  constexpr int per_bit = kTile * kGroup / 8;
  switch (values) {
    case Values::k4Bit: return 4 * per_bit;
    case Values::k5Bit: return 5 * per_bit;
    case Values::k6Bit: return 6 * per_bit;
    case Values::k8Bit: return 8 * per_bit;
    case Values::kBf16: return 16 * per_bit;
    case Values::kF32: break;
  }
  return 32 * per_bit;
}
constexpr int scale_bytes(Scales scales) {
  return scales == Scales::kNone ? 0 : scales == Scales::kHalfMin ? 4 * kTile : 2 * kTile;
}
// Bytes in front of each run of 8 groups.
constexpr int run_bytes(Scales scales) {
  return scales == Scales::kSuper ? 4 * kTile : scales == Scales::kSuper16 ? 2 * kTile : 0;
}

struct PackedMatrix {
  int outputs;
  int inputs;
  Values values;
  Scales scales;
  int zero_point;      // only kHalf and kSuper16
  int activation_planes;  // that its products take: 1 or 2; 0 of floats, which take floats
  int64_t tile_bytes;  // a multiple of 64
  const uint8_t* data;  // [num_tiles * tile_bytes], aligned to 64 bytes
  std::shared_ptr<const void> owner;  // keeps `data` alive

  ONEGLANCE_INLINE int num_tiles() const { return (outputs + kTile - 1) / kTile; }
  ONEGLANCE_INLINE int num_groups() const { return inputs / kGroup; }
  ONEGLANCE_INLINE int64_t num_bytes() const { return num_tiles() * tile_bytes; }
  ONEGLANCE_INLINE bool has_floats() const { return is_float(values); }

  // The outputs of tiles [begin, end) as a matrix of its own, which must not outlive this one.
  ONEGLANCE_INLINE PackedMatrix tiles(int begin, int end) const {
    const int first = begin * kTile;
    const int last = end * kTile < outputs ? end * kTile : outputs;
    return {last - first, inputs,
            values,       scales,
            zero_point,   activation_planes,
            tile_bytes,   data + begin * tile_bytes,
            nullptr};
  }
};

// Activations in P planes, row by row and in each plane by plane: values in -127..127. The first
// plane's scale * value is about x, the second's about what x has beyond that. A product with two
// planes is the sum of the products with each; it has 16 bits of x, and reads the weights once.
struct QuantizedRows {
  int8_t* values;  // [R][P][K]
  float* scales;   // [R][P][K / 32]
  int32_t* sums;   // [R][P][K / 32] sum of a group's values
  int planes;      // P; a product may take fewer than there are
};

// The same activations for matrices of both kinds; what no matrix asks for need not be filled.
struct Activations {
  const float* floats;      // [R][K]
  QuantizedRows quantized;  // for integer weights
};

}  // namespace oneglance
