// Float weights that are packed as floats.
#pragma once

#include <cstdint>
#include <cstring>

#include "half.h"
#include "packed.h"

namespace oneglance {
namespace {

inline bool is_finite(uint32_t bits) { return (bits & 0x7fffffffu) < 0x7f800000u; }

// A format like those of pack_formats.h: kValues, kScales, kBlock, ...; `store(row, g, lane, to)`
// writes the g-th 32 weights of a row into a lane of the group at `to`, and returns whether all
// are finite there. `Source` is the format in the file.
template <typename Source, Values V>
struct KeptFloats {
  static constexpr Values kValues = V;
  static constexpr Scales kScales = Scales::kNone;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = Source::kBlock;
  static constexpr int kBlockBytes = Source::kBlockBytes;

  static bool store(const uint8_t* row, int g, int lane, uint8_t* to) {
    float weights[kGroup];
    Source::floats(row, g, weights);
    bool are_finite = true;
    for (int k = 0; k < kGroup; ++k) {
      const uint32_t bits = bits_of(weights[k]);
      are_finite = is_finite(bits) && are_finite;
      if constexpr (V == Values::kF32) {
        std::memcpy(to + 4 * (k * kTile + lane), &bits, 4);
      } else {
        // To nearest even; the largest floats would become infinite.
        const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        are_finite = is_finite(rounded << 16) && are_finite;
        const auto half = static_cast<uint16_t>(rounded);
        std::memcpy(to + 2 * (k * kTile + lane), &half, 2);
      }
    }
    return are_finite;
  }
};

}  // namespace
}  // namespace oneglance
