// Reads groups of 32 weights out of the GGML block formats.
//
// A format has: kValues, kScales, kZeroPoint; kBlock, the weights in a block, and kBlockBytes;
// `read(row, g, group)` fills a Group from the g-th 32 weights of a row, and returns whether the
// weights are fit to be packed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "half.h"
#include "packed.h"

namespace oneglance {
namespace {

// 32 weights of one output: stored integers and whichever scales the form has.
struct Group {
  uint8_t values[kGroup];
  uint16_t d = 0;         // half bits
  uint16_t minimum = 0;   // half bits: m or dmin
  uint8_t small[2] = {};  // kSuper: sc, mn; kSuper16: sc of both halves
};

template <typename Word>
inline Word word_at(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
inline uint16_t u16_at(const uint8_t* from) { return word_at<uint16_t>(from); }

// Four bits of each of `count` bytes (a multiple of 8), from bit `shift` on; eight bytes at a time,
// as the mask keeps what is shifted across their borders out.
inline void read_fields(const uint8_t* bytes, int count, int shift, uint8_t* values) {
  for (int i = 0; i < count; i += 8) {
    const uint64_t fields = (word_at<uint64_t>(bytes + i) >> shift) & 0x0f0f0f0f0f0f0f0fu;
    std::memcpy(values + i, &fields, sizeof fields);
  }
}
// `Bits` bits of each of 32 bytes, from bit `shift` on, are bits 4, 5, ... of the values.
template <int Bits>
inline void add_upper_fields(const uint8_t* bytes, int shift, uint8_t* values) {
  constexpr uint64_t kMask = 0x0101010101010101u * ((1 << Bits) - 1);
  for (int i = 0; i < kGroup; i += 8) {
    const uint64_t upper = ((word_at<uint64_t>(bytes + i) >> shift) & kMask) << 4;
    const uint64_t whole = word_at<uint64_t>(values + i) | upper;
    std::memcpy(values + i, &whole, sizeof whole);
  }
}

// 16 bytes hold inputs 0..15 in the low and 16..31 in the high nibbles.
inline void read_nibbles(const uint8_t* bytes, uint8_t* values) {
  read_fields(bytes, 16, 0, values);
  read_fields(bytes, 16, 4, values + 16);
}

// Bit k of 4 bytes is the fifth bit of value k.
inline void add_fifth_bits(const uint8_t* bytes, uint8_t* values) {
  for (int k = 0; k < kGroup; k += 8) {
    const uint8_t byte = bytes[k / 8];
    for (int i = 0; i < 8; ++i) {
      values[k + i] = static_cast<uint8_t>(values[k + i] | ((byte >> i) & 1) << 4);
    }
  }
}

struct Q4_0 {
  static constexpr Values kValues = Values::k4Bit;
  static constexpr Scales kScales = Scales::kHalf;
  static constexpr int kZeroPoint = 8;
  static constexpr int kBlock = 32;
  static constexpr int kBlockBytes = 18;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + g * kBlockBytes;
    group.d = u16_at(block);
    read_nibbles(block + 2, group.values);
    return true;
  }
};

struct Q4_1 {
  static constexpr Values kValues = Values::k4Bit;
  static constexpr Scales kScales = Scales::kHalfMin;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = 32;
  static constexpr int kBlockBytes = 20;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + g * kBlockBytes;
    group.d = u16_at(block);
    group.minimum = u16_at(block + 2);
    read_nibbles(block + 4, group.values);
    return true;
  }
};

struct Q5_0 {
  static constexpr Values kValues = Values::k5Bit;
  static constexpr Scales kScales = Scales::kHalf;
  static constexpr int kZeroPoint = 16;
  static constexpr int kBlock = 32;
  static constexpr int kBlockBytes = 22;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + g * kBlockBytes;
    group.d = u16_at(block);
    read_nibbles(block + 6, group.values);
    add_fifth_bits(block + 2, group.values);
    return true;
  }
};

struct Q5_1 {
  static constexpr Values kValues = Values::k5Bit;
  static constexpr Scales kScales = Scales::kHalfMin;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = 32;
  static constexpr int kBlockBytes = 24;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + g * kBlockBytes;
    group.d = u16_at(block);
    group.minimum = u16_at(block + 2);
    read_nibbles(block + 8, group.values);
    add_fifth_bits(block + 4, group.values);
    return true;
  }
};

struct Q8_0 {
  static constexpr Values kValues = Values::k8Bit;
  static constexpr Scales kScales = Scales::kHalf;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = 32;
  static constexpr int kBlockBytes = 34;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + g * kBlockBytes;
    group.d = u16_at(block);
    std::memcpy(group.values, block + 2, kGroup);
    return true;
  }
};

// Scale and minimum of group i of 8, six bits each, in the 12 bytes that Q4_K and Q5_K share:
// bytes 0..3 and 4..7 hold the first four, their upper two bits complete the last four, whose
// lower four bits are in bytes 8..11.
inline void read_small_scales(const uint8_t* bytes, int i, uint8_t* small) {
  if (i < 4) {
    small[0] = bytes[i] & 63;
    small[1] = bytes[4 + i] & 63;
  } else {
    small[0] = static_cast<uint8_t>((bytes[4 + i] & 15) | ((bytes[i - 4] >> 2) & 48));
    small[1] = static_cast<uint8_t>((bytes[4 + i] >> 4) | ((bytes[i] >> 2) & 48));
  }
}

struct Q4_K {
  static constexpr Values kValues = Values::k4Bit;
  static constexpr Scales kScales = Scales::kSuper;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = 256;
  static constexpr int kBlockBytes = 144;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + (g / 8) * kBlockBytes;
    const int i = g % 8;
    group.d = u16_at(block);
    group.minimum = u16_at(block + 2);
    read_small_scales(block + 4, i, group.small);
    read_fields(block + 16 + (i / 2) * 32, kGroup, 4 * (i % 2), group.values);
    return true;
  }
};

struct Q5_K {
  static constexpr Values kValues = Values::k5Bit;
  static constexpr Scales kScales = Scales::kSuper;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = 256;
  static constexpr int kBlockBytes = 176;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + (g / 8) * kBlockBytes;
    const int i = g % 8;
    group.d = u16_at(block);
    group.minimum = u16_at(block + 2);
    read_small_scales(block + 4, i, group.small);
    read_fields(block + 48 + (i / 2) * 32, kGroup, 4 * (i % 2), group.values);
    add_upper_fields<1>(block + 16, i, group.values);
    return true;
  }
};

struct Q6_K {
  static constexpr Values kValues = Values::k6Bit;
  static constexpr Scales kScales = Scales::kSuper16;
  static constexpr int kZeroPoint = 32;
  static constexpr int kBlock = 256;
  static constexpr int kBlockBytes = 210;
  static bool read(const uint8_t* row, int g, Group& group) {
    const uint8_t* block = row + (g / 8) * kBlockBytes;
    const int part = (g % 8) / 4;  // half of the block: 128 weights
    const int i = g % 4;
    read_fields(block + part * 64 + (i % 2) * 32, kGroup, 4 * (i / 2), group.values);
    add_upper_fields<2>(block + 128 + part * 32, 2 * i, group.values);
    std::memcpy(group.small, block + 192 + (g % 8) * 2, 2);
    group.d = u16_at(block + 208);
    return true;
  }
};

// Quantises 32 floats to 8 bits, see pack.h.
inline bool quantize_weights(const float* weights, Group& group) {
  // As integers, magnitudes order like floats, with infinity and NaN above all.
  int32_t largest = 0;
  for (int k = 0; k < kGroup; ++k) {
    const int32_t magnitude = static_cast<int32_t>(bits_of(weights[k]) & 0x7fffffffu);
    largest = magnitude > largest ? magnitude : largest;
  }
  group.d = float_to_half(float_of(static_cast<uint32_t>(largest)) / 127.0f);
  const float scale = half_to_float(group.d);
  if (!(scale < INFINITY)) return false;
  const float divisor = scale > 0.0f ? scale : INFINITY;  // a scale of 0 makes all values 0
  for (int k = 0; k < kGroup; ++k) {
    // Adding 1.5 * 2^23 leaves the quotient, rounded to nearest even, in the low bits. (Beyond
    // 127 it gets only where the scale was rounded down much, as a subnormal half.)
    const int32_t rounded =
        static_cast<int32_t>(bits_of(weights[k] / divisor + 12582912.0f)) - 0x4b400000;
    const int32_t upper = rounded > 127 ? 127 : rounded;
    group.values[k] = static_cast<uint8_t>(upper < -127 ? -127 : upper);
  }
  return true;
}

// Float types as blocks of 32 values; Element is the stored type, To its conversion.
template <typename Element, float (*To)(Element)>
struct FloatFormat {
  static constexpr Values kValues = Values::k8Bit;
  static constexpr Scales kScales = Scales::kHalf;
  static constexpr int kZeroPoint = 0;
  static constexpr int kBlock = 32;
  static constexpr int kBlockBytes = 32 * sizeof(Element);
  static void floats(const uint8_t* row, int g, float* weights) {
    Element stored[kGroup];
    std::memcpy(stored, row + int64_t{g} * kBlockBytes, sizeof stored);
    for (int k = 0; k < kGroup; ++k) weights[k] = To(stored[k]);  // inlined and vectorised
  }
  static bool read(const uint8_t* row, int g, Group& group) {
    float weights[kGroup];
    floats(row, g, weights);
    return quantize_weights(weights, group);
  }
};

inline float from_float(float value) { return value; }
inline float from_bfloat16(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

using F32 = FloatFormat<float, &from_float>;
using F16 = FloatFormat<uint16_t, &half_to_float>;
using BF16 = FloatFormat<uint16_t, &from_bfloat16>;

}  // namespace
}  // namespace oneglance
