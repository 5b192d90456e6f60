#include "pack.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "pack_floats.h"
#include "pack_formats.h"
#include "thread_pool.h"

namespace oneglance {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunk = 16 * kHugePage;

size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// Memory in huge pages where the system grants them: streaming weights through small ones costs a
// fifth of the bandwidth.
std::shared_ptr<uint8_t> allocate_pages(size_t num_bytes) {
  const size_t rounded = round_up(num_bytes, kHugePage);
  void* memory = std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  madvise(memory, rounded, MADV_HUGEPAGE);  // advice: it may be refused
#endif
  return {static_cast<uint8_t*>(memory), [](uint8_t* pointer) { std::free(pointer); }};
}

// Memory for one matrix. Small matrices share chunks, so that they get huge pages without wasting
// most of one each; a chunk is freed with the last of its matrices.
std::shared_ptr<uint8_t> allocate(size_t num_bytes) {
  static std::mutex mutex;
  static std::weak_ptr<uint8_t> current;
  static size_t used = 0;
  const size_t rounded = round_up(num_bytes, 64);
  if (rounded > kChunk / 4) return allocate_pages(rounded);
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<uint8_t> chunk = current.lock();
  if (chunk == nullptr || used + rounded > kChunk) {
    chunk = allocate_pages(kChunk);
    current = chunk;
    used = 0;
  }
  uint8_t* const memory = chunk.get() + used;
  used += rounded;
  return {std::move(chunk), memory};
}

constexpr int64_t group_bytes(Values values, Scales scales) {
  return value_bytes(values) + scale_bytes(scales);
}

int64_t tile_bytes_of(Values values, Scales scales, int inputs) {
  const int64_t groups = inputs / kGroup;
  return groups * group_bytes(values, scales) +
         (groups + kRunGroups - 1) / kRunGroups * run_bytes(scales);
}

// Writes what each value has beyond 4 bits, `Bits` of them, into the upper plane.
template <int Bits>
void store_upper_bits(const uint8_t* values, int lane, uint8_t* plane) {
  constexpr int kShared = 8 / Bits;
  constexpr uint32_t kMask = 0x01010101u * ((1 << Bits) - 1);
  for (int first = 0; first < kGroup; first += 4 * kShared, plane += 4 * kTile) {
    uint32_t bytes = 0;
    for (int t = 0; t < kShared; ++t) {
      bytes |= ((word_at<uint32_t>(values + first + 4 * t) >> 4) & kMask) << (Bits * t);
    }
    std::memcpy(plane + 4 * lane, &bytes, 4);
  }
}

// Writes the values of one output into its lane of a group, four inputs a word.
template <Values V>
void store_values(const uint8_t* values, int lane, uint8_t* group) {
  if constexpr (V == Values::k8Bit) {
    for (int step = 0; step < 8; ++step, values += 4, group += 4 * kTile) {
      std::memcpy(group + 4 * lane, values, 4);
    }
    return;
  }
  constexpr uint32_t kLow = 0x0f0f0f0fu;
  for (int step = 0; step < 4; ++step) {
    const uint32_t low = word_at<uint32_t>(values + 8 * step) & kLow;
    const uint32_t high = word_at<uint32_t>(values + 8 * step + 4) & kLow;
    const uint32_t bytes = low | high << 4;
    std::memcpy(group + step * 4 * kTile + 4 * lane, &bytes, 4);
  }
  uint8_t* upper = group + value_bytes(Values::k4Bit);
  if constexpr (V == Values::k5Bit) store_upper_bits<1>(values, lane, upper);
  if constexpr (V == Values::k6Bit) store_upper_bits<2>(values, lane, upper);
}

template <Scales S>
void store_scales(const Group& group, int lane, uint8_t* scales, uint8_t* run) {
  const auto store_half = [lane](uint8_t* halves, uint16_t half) {
    std::memcpy(halves + 2 * lane, &half, sizeof half);
  };
  if constexpr (S == Scales::kHalf || S == Scales::kHalfMin) store_half(scales, group.d);
  if constexpr (S == Scales::kHalfMin) store_half(scales + 2 * kTile, group.minimum);
  if constexpr (S == Scales::kSuper || S == Scales::kSuper16) {
    scales[lane] = group.small[0];
    scales[kTile + lane] = group.small[1];
    store_half(run, group.d);
  }
  if constexpr (S == Scales::kSuper) store_half(run + 2 * kTile, group.minimum);
}

// Packs a run of groups [begin, end) of one output, whose weights are at `row`, into its lane of a
// tile; `to` is where the run begins in that.
template <typename Format>
bool pack_run(const uint8_t* row, int begin, int end, int lane, uint8_t* to) {
  constexpr Values V = Format::kValues;
  constexpr Scales S = Format::kScales;
  uint8_t* const run = to;
  to += run_bytes(S);
  bool is_fit = true;
  for (int g = begin; g < end; ++g, to += group_bytes(V, S)) {
    if constexpr (is_float(V)) {
      is_fit = Format::store(row, g, lane, to) && is_fit;
    } else {
      Group group;
      is_fit = Format::read(row, g, group) && is_fit;
      store_values<V>(group.values, lane, to);
      store_scales<S>(group, lane, to + value_bytes(V), run);
    }
  }
  return is_fit;
}

// Packs up to 32 outputs into a tile, run by run, so that what is written stays in the cache.
template <typename Format>
bool pack_tile(const uint8_t* rows, int64_t row_bytes, int num_rows, int num_groups, uint8_t* to) {
  constexpr int64_t bytes = group_bytes(Format::kValues, Format::kScales);
  bool is_fit = true;
  for (int begin = 0; begin < num_groups; begin += kRunGroups) {
    const int end = std::min(begin + kRunGroups, num_groups);
    for (int lane = 0; lane < num_rows; ++lane) {
      is_fit = pack_run<Format>(rows + lane * row_bytes, begin, end, lane, to) && is_fit;
    }
    to += run_bytes(Format::kScales) + (end - begin) * bytes;
  }
  return is_fit;
}

void require_planes(int planes, Values values, Scales scales) {
  if (planes < 1 || planes > kMaxPlanes) {
    throw std::invalid_argument("activation_planes must be 1 or 2, not " + std::to_string(planes));
  }
  if (planes > 1 && (values != Values::k8Bit || scales != Scales::kHalf)) {
    throw std::invalid_argument(
        "only 8-bit weights with one scale take activations in " + std::to_string(planes) +
        " planes");
  }
}

template <typename Format>
PackedMatrix pack_as(const uint8_t* data, size_t num_bytes, int activation_planes, int outputs,
                     int inputs, int num_threads) {
  require_planes(activation_planes, Format::kValues, Format::kScales);
  const int64_t row_bytes = int64_t{inputs} / Format::kBlock * Format::kBlockBytes;
  if (num_bytes != static_cast<size_t>(outputs * row_bytes)) {
    throw std::invalid_argument("a matrix of " + std::to_string(outputs) + " x " +
                                std::to_string(inputs) + " has " +
                                std::to_string(outputs * row_bytes) + " bytes in this type, not " +
                                std::to_string(num_bytes));
  }
  PackedMatrix w{};
  w.outputs = outputs;
  w.inputs = inputs;
  w.values = Format::kValues;
  w.scales = Format::kScales;
  w.zero_point = Format::kZeroPoint;
  w.activation_planes = is_float(w.values) ? 0 : activation_planes;
  w.tile_bytes = tile_bytes_of(w.values, w.scales, inputs);
  const std::shared_ptr<uint8_t> packed = allocate(static_cast<size_t>(w.num_bytes()));
  w.data = packed.get();
  w.owner = packed;

  std::atomic<bool> all_fit{true};
  ThreadPool::shared(num_threads)->run([&](int index, int count) {
    const Range part = part_of(w.num_tiles(), index, count);
    for (int tile = part.begin; tile < part.end; ++tile) {
      uint8_t* to = packed.get() + tile * w.tile_bytes;
      const int first = tile * kTile;
      const int num_rows = std::min(outputs - first, kTile);
      if (num_rows < kTile) std::memset(to, 0, static_cast<size_t>(w.tile_bytes));
      if (!pack_tile<Format>(data + first * row_bytes, row_bytes, num_rows, w.num_groups(), to)) {
        all_fit = false;
      }
    }
  });
  if (!all_fit) {
    throw std::invalid_argument(is_float(w.values)
                                    ? "a weight is not finite, or not in bfloat16"
                                    : "a weight is not finite or above 8.3 million in magnitude");
  }
  return w;
}

// Calls function with an object of the type that reads weights of this name and gives them the
// wanted form; false where there is none.
template <typename Function>
bool with_format(const std::string& name, FloatForm floats, Function&& function) {
  const auto with_floats = [&](auto format) {
    using Format = decltype(format);
    switch (floats) {
      case FloatForm::k8Bit: function(format); break;
      case FloatForm::kBf16: function(KeptFloats<Format, Values::kBf16>{}); break;
      case FloatForm::kF32: function(KeptFloats<Format, Values::kF32>{}); break;
    }
    return true;
  };
  if (name == "Q4_0") return function(Q4_0{}), true;
  if (name == "Q4_1") return function(Q4_1{}), true;
  if (name == "Q5_0") return function(Q5_0{}), true;
  if (name == "Q5_1") return function(Q5_1{}), true;
  if (name == "Q8_0") return function(Q8_0{}), true;
  if (name == "Q4_K") return function(Q4_K{}), true;
  if (name == "Q5_K") return function(Q5_K{}), true;
  if (name == "Q6_K") return function(Q6_K{}), true;
  if (name == "F32") return with_floats(F32{});
  if (name == "F16") return with_floats(F16{});
  if (name == "BF16") return with_floats(BF16{});
  return false;
}

}  // namespace

FloatForm float_form(const std::string& weights) {
  if (weights == "auto") return FloatForm::k8Bit;
  if (weights == "bf16") return FloatForm::kBf16;
  if (weights == "f32") return FloatForm::kF32;
  throw std::invalid_argument("weights must be auto, bf16 or f32, not " + weights);
}

std::string why_unpackable(const std::string& quantization, int inputs) {
  int block = 0;
  if (!with_format(quantization, FloatForm::k8Bit,
                   [&](auto format) { block = decltype(format)::kBlock; })) {
    return "weights of type " + quantization + " have no packed form";
  }
  if (inputs <= 0 || inputs % block != 0) {
    return "rows of " + std::to_string(inputs) + " inputs are not a multiple of " +
           std::to_string(block);
  }
  return "";
}

PackedMatrix pack(const uint8_t* data, size_t num_bytes, const std::string& quantization,
                  FloatForm floats, int activation_planes, int outputs, int inputs,
                  int num_threads) {
  const std::string reason = why_unpackable(quantization, inputs);
  if (!reason.empty()) throw std::invalid_argument(reason);
  if (outputs <= 0) throw std::invalid_argument("a matrix needs at least one output");
  PackedMatrix packed{};
  with_format(quantization, floats, [&](auto format) {
    packed = pack_as<decltype(format)>(data, num_bytes, activation_planes, outputs, inputs,
                                       num_threads);
  });
  return packed;
}

}  // namespace oneglance
