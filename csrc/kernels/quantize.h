// Quantises activations to 8 bits. Included once per instruction set.
//
// Per row and group of 32 inputs: scale = amax / 127, inverse = 127 / amax,
// value = x * inverse rounded to nearest even, sum = sum of the values. A second plane is the same
// of the remainders x - value * scale: one product and one difference, both rounded.
// - Where amax is 0, or so small that 127 / amax overflows (below about 4e-37), the values are 0.
// - Where x has a NaN or an infinity, the values are 0 and the scale is not finite, so that every
//   output of the row becomes NaN instead of a plausible number. So does a remainder, which is
//   not finite either; of finite x only the largest float can have such a one.

namespace oneglance::ONEGLANCE_ISA {
namespace {

// Adding 1.5 * 2^23 leaves a number below 2^22 rounded to nearest even in the low bits.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4b400000;

inline void quantize_group(const float* x, int8_t* values, float* scale, int32_t* sum) {
  int32_t bits[kGroup];
  std::memcpy(bits, x, sizeof bits);
  // As integers, magnitudes order like floats, with infinity and NaN above all; an exact maximum
  // that the compiler may vectorise.
  int32_t largest = 0;
  for (int k = 0; k < kGroup; ++k) {
    const int32_t magnitude = bits[k] & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  const float amax = float_of(static_cast<uint32_t>(largest));
  *scale = amax / 127.0f;
  const float inverse = 127.0f / amax;
  const bool is_usable = largest != 0 && largest < 0x7f800000 && bits_of(inverse) < 0x7f800000u;
  if (!is_usable) {
    std::memset(values, 0, kGroup);
    *sum = 0;
    return;
  }
  int32_t total = 0;
  for (int k = 0; k < kGroup; ++k) {
    const float shifted = x[k] * inverse + kRounder;
    int32_t value;
    std::memcpy(&value, &shifted, sizeof value);
    value -= kRounderBits;
    values[k] = static_cast<int8_t>(value);
    total += value;
  }
  *sum = total;
}

inline void subtract_plane(const float* x, const int8_t* values, float scale, float* remainder) {
  for (int k = 0; k < kGroup; ++k) remainder[k] = x[k] - static_cast<float>(values[k]) * scale;
}

void quantize_rows(const float* x, int64_t ldx, int rows, int inputs, QuantizedRows out,
                   int group_begin, int group_end) {
  const int64_t groups = inputs / kGroup;
  for (int r = 0; r < rows; ++r) {
    for (int64_t g = group_begin; g < group_end; ++g) {
      const float* from = x + r * ldx + g * kGroup;
      float remainder[kGroup];
      for (int p = 0; p < out.planes; ++p) {
        const int64_t at = (static_cast<int64_t>(r) * out.planes + p) * groups + g;
        int8_t* values = out.values + at * kGroup;
        quantize_group(from, values, out.scales + at, out.sums + at);
        if (p + 1 == out.planes) break;
        subtract_plane(from, values, out.scales[at], remainder);
        from = remainder;
      }
    }
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
