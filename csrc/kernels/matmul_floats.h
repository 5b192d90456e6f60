// y = x * W^T over weights that are kept as floats. Included once per instruction set.
//
// For each output and row, inputs k in ascending order: acc = acc + w[k] * x[k], one
// multiplication and one addition. The lanes are outputs; how rows, tiles and lanes are split
// changes no bit.

#include "lanes.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kFloatBlockRows = 4;   // rows whose sums stay in registers
constexpr int kFloatChunkRows = 48;  // rows that a group's weights serve while they are in the cache

ONEGLANCE_INLINE Lanes load_weights(const float* from) { return load(from); }

// Sixteen bfloat16, each the upper half of a float32.
ONEGLANCE_INLINE Lanes load_weights(const uint16_t* from) {
  uint32_t bits[kLanes];
  for (int i = 0; i < kLanes; ++i) bits[i] = static_cast<uint32_t>(from[i]) << 16;
  Lanes result;
  static_assert(sizeof result == sizeof bits, "lanes are nothing but floats");
  std::memcpy(&result, bits, sizeof bits);
  return result;
}

// Adds a group of inputs to the sums of R rows, for sixteen outputs.
template <int R, typename Weight>
inline void add_float_group(const Weight* weights, const float* x, int64_t ldx, float* acc) {
  Lanes sum[R];
  for (int r = 0; r < R; ++r) sum[r] = load(acc + r * kTile);
  for (int k = 0; k < kGroup; ++k) {
    const Lanes w = load_weights(weights + k * kTile);
    for (int r = 0; r < R; ++r) sum[r] = sum[r] + w * broadcast(x[r * ldx + k]);
  }
  for (int r = 0; r < R; ++r) store(acc + r * kTile, sum[r]);
}

template <typename Weight>
inline void add_float_group_to_chunk(const Weight* weights, const float* x, int64_t ldx, int rows,
                                     float* acc) {
  for (int row = 0; row < rows;) {
    const int left = rows - row;
    const int block = left < kFloatBlockRows ? left : kFloatBlockRows;
    for (int o = 0; o < kTile; o += kLanes) {
      float* sums = acc + row * kTile + o;
      const float* from = x + row * ldx;
      switch (block) {
        case 1: add_float_group<1>(weights + o, from, ldx, sums); break;
        case 2: add_float_group<2>(weights + o, from, ldx, sums); break;
        case 3: add_float_group<3>(weights + o, from, ldx, sums); break;
        default: add_float_group<4>(weights + o, from, ldx, sums); break;
      }
    }
    row += block;
  }
}

// One tile, one chunk of rows; x and y are those of the first row.
template <typename Weight>
void matmul_float_tile(const PackedMatrix& w, const float* x, int64_t ldx, int rows, int tile,
                       float* y, int64_t ldy) {
  constexpr int group_bytes = kGroup * kTile * sizeof(Weight);
  const uint8_t* stream = w.data + tile * w.tile_bytes;
  alignas(64) float acc[kFloatChunkRows * kTile];
  std::memset(acc, 0, sizeof(float) * kTile * rows);
  for (int64_t g = 0; g < w.num_groups(); ++g, stream += group_bytes) {
    prefetch(stream + kPrefetchBytes, group_bytes);
    add_float_group_to_chunk(reinterpret_cast<const Weight*>(stream), x + g * kGroup, ldx, rows,
                             acc);
  }
  const int first = tile * kTile;
  const int outputs = w.outputs - first < kTile ? w.outputs - first : kTile;
  for (int r = 0; r < rows; ++r) {
    std::memcpy(y + r * ldy + first, acc + r * kTile, sizeof(float) * outputs);
  }
}

template <Values V>
struct StoredAs {
  using Type = float;
};
template <>
struct StoredAs<Values::kBf16> {
  using Type = uint16_t;
};

void matmul_floats(const PackedMatrix& w, const float* x, int64_t ldx, int rows, float* y,
                   int64_t ldy, int tile_begin, int tile_end) {
  with_float_form(w, [&](auto values) {
    using Weight = typename StoredAs<decltype(values)::value>::Type;
    for (int tile = tile_begin; tile < tile_end; ++tile) {
      for (int row = 0; row < rows; row += kFloatChunkRows) {
        const int count = rows - row < kFloatChunkRows ? rows - row : kFloatChunkRows;
        matmul_float_tile<Weight>(w, x + row * ldx, ldx, count, tile, y + row * ldy, ldy);
      }
    }
  });
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
