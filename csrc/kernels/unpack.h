// Spreads 5- and 6-bit values of a group into bytes. Included once per instruction set.

namespace oneglance::ONEGLANCE_ISA {
namespace {

#if defined(__AVX2__)

// Every 16-bit lane shifted; what crosses bytes is masked away by the caller.
template <int Left>
inline __m256i shift_left(__m256i value) {
  if constexpr (Left > 0) return _mm256_slli_epi16(value, Left);
  if constexpr (Left < 0) return _mm256_srli_epi16(value, -Left);
  return value;
}

// (low >> LowShift) & 15 | upper shifted to bit 4 and masked, for 128 bytes.
template <int LowShift, int UpperLeft, int UpperMask>
inline void unpack_step(const uint8_t* low, const uint8_t* upper, uint8_t* to) {
  for (int b = 0; b < kStepBytes; b += 32) {
    const __m256i l = _mm256_and_si256(shift_left<-LowShift>(load(low + b)), _mm256_set1_epi8(15));
    const __m256i u =
        _mm256_and_si256(shift_left<UpperLeft>(load(upper + b)), _mm256_set1_epi8(UpperMask));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + b), _mm256_or_si256(l, u));
  }
}

#else

template <int LowShift, int UpperLeft, int UpperMask>
inline void unpack_step(const uint8_t* low, const uint8_t* upper, uint8_t* to) {
  for (int b = 0; b < kStepBytes; ++b) {
    const int u = UpperLeft > 0 ? upper[b] << (UpperLeft & 7) : upper[b] >> (-UpperLeft & 7);
    to[b] = static_cast<uint8_t>(((low[b] >> LowShift) & 15) | (u & UpperMask));
  }
}

#endif

// The values of a group as bytes, [8 steps][32 outputs][4 inputs].
struct UnpackedGroup {
  alignas(64) uint8_t bytes[8 * kStepBytes];

  // `stream` is at a group whose values have 4 + UpperBits bits.
  template <int UpperBits, int Step = 0>
  inline void fill(const uint8_t* stream) {
    if constexpr (Step < 8) {
      constexpr int shared = 8 / UpperBits;  // steps that share a byte of the upper plane
      constexpr int mask = ((1 << UpperBits) - 1) << 4;
      const uint8_t* upper = stream + value_bytes(Values::k4Bit) + Step / shared * kStepBytes;
      unpack_step<Step % 2 * 4, 4 - Step % shared * UpperBits, mask>(
          stream + Step / 2 * kStepBytes, upper, bytes + Step * kStepBytes);
      fill<UpperBits, Step + 1>(stream);
    }
  }
};

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
