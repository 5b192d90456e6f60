// Spreads 5- and 6-bit values of a group into bytes. Included once per instruction set.

namespace oneglance::ONEGLANCE_ISA {
namespace {

// Lanes of 16 bits, which every instruction set can shift; what crosses bytes is masked away.
using Words = uint16_t __attribute__((vector_size(sizeof(DotInts))));

template <int Left>
inline void shift_left(Words& value) {
  if constexpr (Left > 0) value = value << Left;
  if constexpr (Left < 0) value = value >> -Left;
}

// (low >> LowShift) & 15 | upper shifted to bit 4 and masked, for 128 bytes.
template <int LowShift, int UpperLeft, int UpperMask>
inline void unpack_step(const uint8_t* low, const uint8_t* upper, uint8_t* to) {
  constexpr uint16_t kLowMask = 0x0f0f;
  constexpr uint16_t kUpperMask = UpperMask * 0x0101;
  for (size_t b = 0; b < kStepBytes; b += sizeof(Words)) {
    Words l, u;
    std::memcpy(&l, low + b, sizeof l);
    std::memcpy(&u, upper + b, sizeof u);
    shift_left<-LowShift>(l);
    shift_left<UpperLeft>(u);
    const Words both = (l & kLowMask) | (u & kUpperMask);
    std::memcpy(to + b, &both, sizeof both);
  }
}

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
