// Philox4x64-10 (Salmon et al., SC 2011): the random words of Gumbel noise, in the order that
// src/oneglance/sampling/noise.py defines.
#pragma once

#include "../row_kernels.h"
#include "doubles.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

__extension__ typedef unsigned __int128 Product;

constexpr int kBlockWords = 4;  // that a block yields

template <typename Word>
struct Wide {
  Word high, low;
};

ONEGLANCE_INLINE Wide<uint64_t> multiply(uint64_t x, uint64_t multiplier) {
  const Product product = Product{multiplier} * x;
  return {static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
}

#if defined(ONEGLANCE_HAS_AVX512)
// The products of the lower halves of each lane. (With a mask for the reason given in lanes.h.)
ONEGLANCE_INLINE NativeWords multiply_halves(NativeWords a, NativeWords b) {
  return reinterpret_cast<NativeWords>(_mm512_maskz_mul_epu32(
      0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

// No sum overflows: a product of halves is at most 2^64 - 2^33 + 1.
ONEGLANCE_INLINE Wide<NativeWords> multiply(NativeWords x, uint64_t multiplier) {
  constexpr uint64_t kHalf = 0xffffffffu;
  const NativeWords low = multiplier - NativeWords{};
  const NativeWords high = (multiplier >> 32) - NativeWords{};
  const NativeWords low_low = multiply_halves(x, low);
  const NativeWords middle = multiply_halves(x >> 32, low) + (low_low >> 32);
  const NativeWords other = multiply_halves(x, high) + (middle & kHalf);
  return {multiply_halves(x >> 32, high) + (middle >> 32) + (other >> 32),
          (other << 32) | (low_low & kHalf)};
}
#endif

// The words of the blocks (counters[b], position, 0, 0), side by side: each round is a long chain
// of steps. A word may be a vector of them, with a block in each lane.
template <typename Word, int kCount>
ONEGLANCE_INLINE void philox(const NoiseKey& key, const Word (&counters)[kCount],
                             Word (&words)[kCount][kBlockWords]) {
  constexpr uint64_t kMultiplier0 = 0xd2e7470ee14c6c93u;
  constexpr uint64_t kMultiplier1 = 0xca5a826395121157u;
  constexpr uint64_t kWeyl0 = 0x9e3779b97f4a7c15u;
  constexpr uint64_t kWeyl1 = 0xbb67ae8584caa73bu;
  for (int b = 0; b < kCount; ++b) {
    words[b][0] = counters[b];
    words[b][1] = key.position - Word{};  // in every lane
    words[b][2] = Word{};
    words[b][3] = Word{};
  }
  uint64_t key0 = key.seed;
  uint64_t key1 = key.choice;
  for (int round = 0; round < 10; ++round) {
    for (auto& w : words) {
      const Wide<Word> p0 = multiply(w[0], kMultiplier0);
      const Wide<Word> p1 = multiply(w[2], kMultiplier1);
      w[0] = p1.high ^ w[1] ^ key0;
      w[1] = p1.low;
      w[2] = p0.high ^ w[3] ^ key1;
      w[3] = p0.low;
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
}

// The words of consecutive tokens, as many as are made at once; the first begins a block.
class ConsecutiveWords {
#if defined(ONEGLANCE_HAS_AVX512)
  using Word = NativeWords;
  static constexpr int kVectors = 2;
#else
  using Word = uint64_t;
  static constexpr int kVectors = 4;
#endif
  static constexpr int kLanesOfWord = sizeof(Word) / sizeof(uint64_t);

 public:
  static constexpr int kCount = kVectors * kLanesOfWord * kBlockWords;

  ONEGLANCE_INLINE ConsecutiveWords(const NoiseKey& key, uint64_t first_block) {
    uint64_t numbers[kVectors * kLanesOfWord];
    for (uint64_t& number : numbers) number = 1 + first_block++;
    Word counters[kVectors];
    std::memcpy(counters, numbers, sizeof counters);
    Word words[kVectors][kBlockWords];
    philox(key, counters, words);
    std::memcpy(words_, words, sizeof words_);
    Word most{};
    for (const auto& block : words) {
      for (const Word& word : block) most = word > most ? word : most;
    }
    std::memcpy(numbers, &most, sizeof most);
    for (int lane = 0; lane < kLanesOfWord; ++lane) {
      highest_ = numbers[lane] > highest_ ? numbers[lane] : highest_;
    }
  }

  ONEGLANCE_INLINE uint64_t operator[](int64_t i) const {
    const int64_t block = i / kBlockWords;
    return words_[block / kLanesOfWord][i % kBlockWords][block % kLanesOfWord];
  }
  ONEGLANCE_INLINE uint64_t highest() const { return highest_; }

 private:
  uint64_t words_[kVectors][kBlockWords][kLanesOfWord];
  uint64_t highest_ = 0;
};

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
