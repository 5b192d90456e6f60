// y = x * W^T over packed weights and quantised activations. Included once per instruction set.
//
// For each output and row, groups in order (sx, sum: the row's scale and sum of that group):
//   kHalf              acc = acc + float(dot - zero_point * sum) * (d * sx)
//   kHalfMin, kSuper   acc = acc + float(dot) * (d * sx);  acc = acc + m * (sx * float(sum))
//   kSuper16           acc = acc + float(sc0 * dot0 + sc1 * dot1) * (d * sx)
//                      (the dots of the two halves, with q - zero_point; all below 2^24, so
//                      that floats compute it as exactly as integers)
// where kSuper has d := d * sc and m := -(dmin * mn), one rounded product each.
// Where activations come in two planes, that is done for each, and y = acc of the first + acc of
// the second.
// Integers stay below 2^24, so their conversion is exact. Rows, tiles and lanes are independent:
// how they are split changes no bit.
//
// Here a staged row is one plane of a row; the planes of a row follow each other and are never
// split between chunks.

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kMaxStagedRows = 48;  // for which the weights are read from memory once
// How far ahead weights are asked for. The hardware's own prefetching stops at pages of 4 KiB and
// alone reaches about 60 % of the bandwidth; between 2 and 16 KiB makes no difference.
constexpr int kPrefetchBytes = 4096;

// As few parts of at most `most` as it takes, of nearly equal size: the size of the first.
inline int even_part(int count, int most) {
  const int parts = (count + most - 1) / most;
  return parts == 0 ? 0 : (count + parts - 1) / parts;
}

constexpr bool has_minimum(Scales scales) {
  return scales == Scales::kHalfMin || scales == Scales::kSuper;
}

// The scales of one group as float.
template <Scales S>
struct GroupScales {
  alignas(64) float d[kTile];
  alignas(64) float m[kTile];
  alignas(64) float run_d[kTile];
  alignas(64) float run_m[kTile];  // with the sign that m has
  const uint8_t* stored;  // the group's scales in the stream

  // The n-th row of halves from there on.
  static void convert(const uint8_t* from, int n, float* floats) {
    const auto* halves = reinterpret_cast<const uint16_t*>(from) + n * kTile;
    for (int o = 0; o < kTile; o += kLanes) store(floats + o, load(halves + o));
  }

  void begin_run(const uint8_t* stream) {
    if constexpr (S == Scales::kSuper) {
      convert(stream, 0, run_d);
      convert(stream, 1, run_m);
      for (int o = 0; o < kTile; o += kLanes) store(run_m + o, -load(run_m + o));
    } else if constexpr (S == Scales::kSuper16) {
      convert(stream, 0, d);
    }
  }

  void read(const uint8_t* scales) {
    stored = scales;
    if constexpr (S == Scales::kHalf || S == Scales::kHalfMin) convert(scales, 0, d);
    if constexpr (S == Scales::kHalfMin) convert(scales, 1, m);
    if constexpr (S == Scales::kSuper) {
      for (int o = 0; o < kTile; o += kLanes) {
        store(d + o, load(run_d + o) * load_bytes(scales + o));
        store(m + o, load(run_m + o) * load_bytes(scales + kTile + o));
      }
    }
  }
};

using DotFloats = float __attribute__((vector_size(sizeof(DotInts))));
constexpr int kDotLanes = sizeof(DotInts) / sizeof(int32_t);

// (By reference: a vector that is returned by value would have an ABI of its own.)
inline void load_floats(const float* from, DotFloats& value) {
  std::memcpy(&value, from, sizeof value);
}

// Adds one group to the sums of R rows. Not inlined: in the loops around it GCC would move loads
// out until the registers spill.
template <Values V, Scales S, int R>
__attribute__((noinline)) void add_group(const uint8_t* values, const GroupScales<S>& scales,
                                         const RowGroup* rows, float (*acc)[kTile]) {
  constexpr int vectors = kDotOutputs / kDotLanes;
  for (int o = 0; o < kTile; o += kDotOutputs) {
    std::conditional_t<has_float_dots<V>, DotFloats, DotInts> dot[R][vectors];
    Dots<V>::template of<R>(values + 4 * o, rows, scales.stored + o, dot);
    DotFloats d[vectors], m[vectors];
    for (int v = 0; v < vectors; ++v) {
      load_floats(scales.d + o + kDotLanes * v, d[v]);
      if (has_minimum(S)) load_floats(scales.m + o + kDotLanes * v, m[v]);
    }
    for (int r = 0; r < R; ++r) {
      // Copied: a store to acc might change it for all that the compiler knows.
      const float scale = rows[r].scale;
      const float scaled_sum = rows[r].scaled_sum;
      const int32_t offset = rows[r].offset;
      for (int v = 0; v < vectors; ++v) {
        float* at = acc[r] + o + kDotLanes * v;
        DotFloats sum;
        load_floats(at, sum);
        if constexpr (has_offset<V, S>) dot[r][v] = dot[r][v] - offset;
        sum = sum + __builtin_convertvector(dot[r][v], DotFloats) * (d[v] * scale);
        if (has_minimum(S)) sum = sum + m[v] * scaled_sum;
        std::memcpy(at, &sum, sizeof sum);
      }
    }
  }
}

// The same for any number of staged rows up to a block.
template <Values V, Scales S, int R = kMaxBlockRows>
inline void add_group_to_block(const uint8_t* values, const GroupScales<S>& scales,
                               const RowGroup* rows, int num_rows, float (*acc)[kTile]) {
  if constexpr (R > 1) {
    if (num_rows < R) {
      add_group_to_block<V, S, R - 1>(values, scales, rows, num_rows, acc);
      return;
    }
  }
  add_group<V, S, R>(values, scales, rows, acc);
}

// How a chunk of staged rows is cut into blocks of nearly equal size. Worked out once: a division
// for each group of weights would take as long as a row's products with it.
struct Blocks {
  static constexpr int kMost = (kMaxChunkRows + kMaxBlockRows - 1) / kMaxBlockRows;

  int sizes[kMost];
  int count = 0;

  explicit Blocks(int num_rows) {
    for (; num_rows > 0; num_rows -= sizes[count++]) {
      sizes[count] = even_part(num_rows, kMaxBlockRows);
    }
  }
};

// The same for all staged rows of a chunk.
template <Values V, Scales S>
inline void add_group_to_chunk(const uint8_t* values, const GroupScales<S>& scales,
                               const RowGroup* rows, const Blocks& blocks, float (*acc)[kTile]) {
  for (int b = 0; b < blocks.count; ++b) {
    add_group_to_block<V, S>(values, scales, rows, blocks.sizes[b], acc);
    rows += blocks.sizes[b];
    acc += blocks.sizes[b];
  }
}

inline void prefetch(const uint8_t* from, int bytes) {
  for (int b = 0; b < bytes; b += 64) __builtin_prefetch(from + b);
}

// Activations as the inner loop reads them, one sequential stream: chunk after chunk of rows, in
// each [group][row of the chunk][plane].
class StagedRows {
 public:
  StagedRows() = default;
  StagedRows(const StagedRows&) = delete;
  StagedRows& operator=(const StagedRows&) = delete;
  ~StagedRows() { std::free(groups_); }

  void fill(const QuantizedRows& x, const PackedMatrix& w, int row, int count, int chunk_rows) {
    const int64_t num_groups = w.num_groups();
    reserve(num_groups * count * w.activation_planes);
    RowGroup* to = groups_;
    for (int first = 0; first < count; first += chunk_rows) {
      const int rows = count - first < chunk_rows ? count - first : chunk_rows;
      for (int64_t g = 0; g < num_groups; ++g) {
        for (int64_t r = row + first; r < row + first + rows; ++r) {
          for (int p = 0; p < w.activation_planes; ++p, ++to) {
            const int64_t at = (r * x.planes + p) * num_groups + g;
            std::memcpy(to->values, x.values + at * kGroup, kGroup);
            to->scale = x.scales[at];
            to->scaled_sum = x.scales[at] * static_cast<float>(x.sums[at]);
            set_biases(*to, w, x.sums[at]);
          }
        }
      }
    }
  }

  const RowGroup* groups() const { return groups_; }

 private:
  void reserve(int64_t count) {
    if (count <= capacity_) return;
    std::free(groups_);
    capacity_ = 0;
    const size_t num_bytes = static_cast<size_t>(count) * sizeof(RowGroup);
    groups_ = static_cast<RowGroup*>(std::aligned_alloc(alignof(RowGroup), num_bytes));
    if (groups_ == nullptr) throw std::bad_alloc();
    capacity_ = count;
  }

  RowGroup* groups_ = nullptr;
  int64_t capacity_ = 0;
};

// Adds the further planes of a row to its first.
inline void add_planes(float (*acc)[kTile], int planes) {
  for (int p = 1; p < planes; ++p) {
    for (int o = 0; o < kTile; ++o) acc[0][o] = acc[0][o] + acc[p][o];
  }
}

// One tile, one chunk of `count` rows; y is that of the first row.
template <Values V, Scales S>
void matmul_tile(const PackedMatrix& w, const RowGroup* rows, int count, int tile, float* y,
                 int64_t ldy) {
  const int planes = w.activation_planes;
  const int staged = count * planes;
  constexpr int group_bytes = value_bytes(V) + scale_bytes(S);
  const uint8_t* stream = w.data + tile * w.tile_bytes;
  const Blocks blocks(staged);
  alignas(64) float acc[kMaxChunkRows][kTile];
  std::memset(acc, 0, sizeof acc[0] * staged);
  GroupScales<S> scales;
  UnpackedGroup unpacked;
  for (int64_t g = 0; g < w.num_groups(); ++g, stream += group_bytes, rows += staged) {
    if (run_bytes(S) > 0 && g % kRunGroups == 0) {
      scales.begin_run(stream);
      stream += run_bytes(S);
    }
    prefetch(stream + kPrefetchBytes, group_bytes);
    scales.read(stream + value_bytes(V));
    if constexpr (V == Values::k5Bit) unpacked.fill<1>(stream);
    if constexpr (V == Values::k6Bit) unpacked.fill<2>(stream);
    constexpr bool is_unpacked = V == Values::k5Bit || V == Values::k6Bit;
    add_group_to_chunk<V, S>(is_unpacked ? unpacked.bytes : stream, scales, rows, blocks, acc);
  }
  const int first = tile * kTile;
  const int outputs = w.outputs - first < kTile ? w.outputs - first : kTile;
  for (int r = 0; r < count; ++r) {
    add_planes(acc + r * planes, planes);
    std::memcpy(y + r * ldy + first, acc[r * planes], sizeof(float) * outputs);
  }
}

void matmul(const PackedMatrix& w, const QuantizedRows& x, int rows, float* y, int64_t ldy,
            int tile_begin, int tile_end) {
  static_assert(kMaxStagedRows % kMaxPlanes == 0 && kMaxChunkRows % kMaxPlanes == 0,
                "whole rows fill them");
  static thread_local StagedRows staged;
  const int planes = w.activation_planes;
  const int most_rows = kMaxStagedRows / planes;
  for (int row = 0; row < rows; row += most_rows) {
    const int count = rows - row < most_rows ? rows - row : most_rows;
    const int chunk_rows = even_part(count, kMaxChunkRows / planes);
    staged.fill(x, w, row, count, chunk_rows);
    with_form(w, [&](auto values, auto scales) {
      for (int tile = tile_begin; tile < tile_end; ++tile) {
        const RowGroup* groups = staged.groups();
        for (int first = 0; first < count; first += chunk_rows) {
          const int chunk = count - first < chunk_rows ? count - first : chunk_rows;
          matmul_tile<decltype(values)::value, decltype(scales)::value>(
              w, groups, chunk, tile, y + (row + first) * ldy, ldy);
          groups += int64_t{chunk} * planes * w.num_groups();
        }
      }
    });
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
