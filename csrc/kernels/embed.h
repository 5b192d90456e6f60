// Dequantises rows of a packed matrix: the embedding. Included once per instruction set.
//
// Each value is made in the order of the GGML formats themselves, see packed.h.

namespace oneglance::ONEGLANCE_ISA {
namespace {

// The stored integer of input k of a group, for the output in `lane`.
template <Values V>
inline int value_at(const uint8_t* group, int lane, int k) {
  const int at = lane * 4 + k % 4;
  if constexpr (V == Values::k8Bit) return static_cast<int8_t>(group[k / 4 * 128 + at]);
  const uint8_t byte = group[k / 8 * 128 + at];
  const int low = k % 8 < 4 ? byte & 15 : byte >> 4;
  const uint8_t* upper = group + value_bytes(Values::k4Bit) + at;
  if constexpr (V == Values::k5Bit) return low | ((upper[0] >> (k / 4)) & 1) << 4;
  if constexpr (V == Values::k6Bit) {
    return low | ((upper[k / 16 * 128] >> (k / 4 % 4 * 2)) & 3) << 4;
  }
  return low;
}

inline float half_at(const uint8_t* halves, int lane) {
  uint16_t half;
  std::memcpy(&half, halves + 2 * lane, sizeof half);
  return half_to_float(half);
}

template <Values V, Scales S>
void embed_row(const PackedMatrix& w, int output, float* y) {
  const int lane = output % kTile;
  const uint8_t* stream = w.data + (output / kTile) * w.tile_bytes;
  float run_scale = 0.0f;
  float run_minimum = 0.0f;
  for (int g = 0; g < w.num_groups(); ++g, y += kGroup) {
    if (run_bytes(S) > 0 && g % kRunGroups == 0) {
      run_scale = half_at(stream, lane);
      if (S == Scales::kSuper) run_minimum = half_at(stream + 2 * kTile, lane);
      stream += run_bytes(S);
    }
    const uint8_t* scales = stream + value_bytes(V);
    for (int k = 0; k < kGroup; ++k) {
      const int q = value_at<V>(stream, lane, k);
      if constexpr (S == Scales::kHalf) {
        y[k] = half_at(scales, lane) * static_cast<float>(q - w.zero_point);
      } else if constexpr (S == Scales::kHalfMin) {
        const float product = half_at(scales, lane) * static_cast<float>(q);
        y[k] = product + half_at(scales + 2 * kTile, lane);
      } else if constexpr (S == Scales::kSuper) {
        const float scale = run_scale * static_cast<float>(scales[lane]);
        const float minimum = run_minimum * static_cast<float>(scales[kTile + lane]);
        y[k] = scale * static_cast<float>(q) - minimum;
      } else {
        const int8_t small = static_cast<int8_t>(scales[(k / 16) * kTile + lane]);
        y[k] = (run_scale * static_cast<float>(small)) * static_cast<float>(q - w.zero_point);
      }
    }
    stream += value_bytes(V) + scale_bytes(S);
  }
}

template <Values V>
void embed_float_row(const PackedMatrix& w, int output, float* y) {
  constexpr int size = value_bytes(V) / (kTile * kGroup);
  const uint8_t* from = w.data + (output / kTile) * w.tile_bytes + output % kTile * size;
  for (int64_t k = 0; k < w.inputs; ++k) {
    // Little-endian, as the file is: a bfloat16 is the upper half of a float32.
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<uint8_t*>(&bits) + (4 - size), from + k * kTile * size, size);
    y[k] = float_of(bits);
  }
}

void embed(const PackedMatrix& w, const int32_t* tokens, int rows, float* y, int64_t ldy) {
  if (w.has_floats()) {
    return with_float_form(w, [&](auto values) {
      for (int r = 0; r < rows; ++r) {
        embed_float_row<decltype(values)::value>(w, tokens[r], y + r * ldy);
      }
    });
  }
  with_form(w, [&](auto values, auto scales) {
    for (int r = 0; r < rows; ++r) {
      embed_row<decltype(values)::value, decltype(scales)::value>(w, tokens[r], y + r * ldy);
    }
  });
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
