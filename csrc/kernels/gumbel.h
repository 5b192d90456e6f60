// Keyed Gumbel noise, defined bit by bit in src/oneglance/sampling/noise.py, and the elements that
// are best with it. Most of them can be told not to win by a look at their random word, without a
// logarithm.
#pragma once

#include "rows.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

__extension__ typedef unsigned __int128 Product;

constexpr int kBlocks = 4;      // of Philox, computed side by side
constexpr int kBlockWords = 4;  // that each yields

constexpr int kRounds = 10;
constexpr uint64_t kMultiplier0 = 0xd2e7470ee14c6c93u;
constexpr uint64_t kMultiplier1 = 0xca5a826395121157u;
constexpr uint64_t kWeyl0 = 0x9e3779b97f4a7c15u;
constexpr uint64_t kWeyl1 = 0xbb67ae8584caa73bu;

// Philox4x64-10 (Salmon et al., SC 2011) of the counters (counters[b], position, 0, 0).
ONEGLANCE_INLINE void philox(const NoiseKey& key, const uint64_t (&counters)[kBlocks],
                             uint64_t (&words)[kBlocks][kBlockWords]) {
  for (int b = 0; b < kBlocks; ++b) {
    words[b][0] = counters[b];
    words[b][1] = key.position;
    words[b][2] = 0;
    words[b][3] = 0;
  }
  uint64_t key0 = key.seed;
  uint64_t key1 = key.choice;
  for (int round = 0; round < kRounds; ++round) {
    for (int b = 0; b < kBlocks; ++b) {
      uint64_t(&w)[kBlockWords] = words[b];
      const Product p0 = Product{kMultiplier0} * w[0];
      const Product p1 = Product{kMultiplier1} * w[2];
      w[0] = static_cast<uint64_t>(p1 >> 64) ^ w[1] ^ key0;
      w[1] = static_cast<uint64_t>(p1);
      w[2] = static_cast<uint64_t>(p0 >> 64) ^ w[3] ^ key1;
      w[3] = static_cast<uint64_t>(p0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
}

// The words of consecutive elements, the first of which begins a block.
#if defined(ONEGLANCE_HAS_AVX512)
class ManyWords {
 public:
  static constexpr int kCount = 16 * kBlockWords;

  // A block in each lane of two vectors, as each round is a long chain of steps.
  ONEGLANCE_INLINE ManyWords(const NoiseKey& key, uint64_t first_block) {
    Words w[kVectors][kBlockWords];
    for (int v = 0; v < kVectors; ++v) {
      for (int lane = 0; lane < kWide; ++lane) {
        w[v][0][lane] = 1 + first_block + static_cast<uint64_t>(v * kWide + lane);
      }
      w[v][1] = key.position - Words{};
      w[v][2] = w[v][3] = Words{};
    }
    uint64_t key0 = key.seed;
    uint64_t key1 = key.choice;
    for (int round = 0; round < kRounds; ++round) {
      for (auto& x : w) {
        const Product128 p0 = multiply(x[0], kMultiplier0);
        const Product128 p1 = multiply(x[2], kMultiplier1);
        x[0] = p1.high ^ x[1] ^ key0;
        x[1] = p1.low;
        x[2] = p0.high ^ x[3] ^ key1;
        x[3] = p0.low;
      }
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    Words most = w[0][0];
    for (const auto& x : w) {
      for (const Words& word : x) most = word > most ? word : most;
    }
    for (int lane = 0; lane < kWide; ++lane) highest_ = most[lane] > highest_ ? most[lane] : highest_;
    std::memcpy(words_, w, sizeof words_);
  }

  ONEGLANCE_INLINE uint64_t operator[](int64_t i) const {
    const int64_t block = i / kBlockWords;
    return words_[block / kWide][i % kBlockWords][block % kWide];
  }
  ONEGLANCE_INLINE uint64_t highest() const { return highest_; }

 private:
  using Words = NativeWords;
  static constexpr int kWide = sizeof(Words) / sizeof(uint64_t);
  static constexpr int kVectors = 2;

  struct Product128 {
    Words high, low;
  };

  // The products of the lower halves of each lane. (With a mask for the reason given in lanes.h.)
  static ONEGLANCE_INLINE Words multiply_halves(Words a, Words b) {
    return reinterpret_cast<Words>(_mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a),
                                                          reinterpret_cast<__m512i>(b)));
  }

  // All 128 bits of products. No sum overflows: a product of halves is at most 2^64 - 2^33 + 1.
  static ONEGLANCE_INLINE Product128 multiply(Words x, uint64_t multiplier) {
    constexpr uint64_t kHalf = 0xffffffffu;
    const Words low = multiplier - Words{};
    const Words high = (multiplier >> 32) - Words{};
    const Words low_low = multiply_halves(x, low);
    const Words middle = multiply_halves(x >> 32, low) + (low_low >> 32);
    const Words other = multiply_halves(x, high) + (middle & kHalf);
    return {multiply_halves(x >> 32, high) + (middle >> 32) + (other >> 32),
            (other << 32) | (low_low & kHalf)};
  }

  uint64_t words_[kVectors][kBlockWords][kWide];
  uint64_t highest_ = 0;
};
#else
class ManyWords {
 public:
  static constexpr int kCount = kBlocks * kBlockWords;

  ONEGLANCE_INLINE ManyWords(const NoiseKey& key, uint64_t first_block) {
    uint64_t counters[kBlocks];
    for (int b = 0; b < kBlocks; ++b) counters[b] = 1 + first_block + static_cast<uint64_t>(b);
    philox(key, counters, words_);
    for (const auto& block : words_) {
      for (const uint64_t word : block) highest_ = word > highest_ ? word : highest_;
    }
  }

  ONEGLANCE_INLINE uint64_t operator[](int64_t i) const {
    return words_[i / kBlockWords][i % kBlockWords];
  }
  ONEGLANCE_INLINE uint64_t highest() const { return highest_; }

 private:
  uint64_t words_[kBlocks][kBlockWords];
  uint64_t highest_ = 0;
};
#endif

ONEGLANCE_INLINE double gumbel_of(uint64_t word) {
  const double uniform = (static_cast<double>(static_cast<int64_t>(word >> 12)) + 0.5) * 0x1p-52;
  return -log(-log(uniform));
}

// No noise is above (53 ln 2) = 36.74.
constexpr double kHighestNoise = 36.75;

// A bound of the noise of a word. With L leading ones, 1 - u >= 2^-(L + 1), and the noise is at
// most -ln(1 - u) <= (L + 1) ln 2; the last digit of 0.6932 is far more than rounding.
ONEGLANCE_INLINE double noise_ceiling(uint64_t word) {
  return 0.6932 * static_cast<double>(__builtin_clzll(~word | 1u) + 1);
}

// What a score plus noise has to reach, at least.
ONEGLANCE_INLINE double podium_floor(const Podium& podium) {
  return podium.size < podium.capacity ? -kInfinity<double> : podium.scores[podium.size - 1];
}

// Adds an element if it belongs there; of equal scores the one that was there first stays ahead.
ONEGLANCE_INLINE void enter(Podium& podium, double score, int64_t index) {
  if (!(score > podium_floor(podium))) return;
  if (podium.size < podium.capacity) ++podium.size;
  int64_t rank = podium.size - 1;
  for (; rank > 0 && podium.scores[rank - 1] < score; --rank) {
    podium.scores[rank] = podium.scores[rank - 1];
    podium.indices[rank] = podium.indices[rank - 1];
  }
  podium.scores[rank] = score;
  podium.indices[rank] = index;
}

template <typename Value>
ONEGLANCE_INLINE double score_of(const ScaledRow<Value>& row, Value value) {
  return (double{value} - row.best) / row.temperature;
}

template <typename Value>
ONEGLANCE_INLINE void consider(const ScaledRow<Value>& row, int64_t index, uint64_t word,
                               Podium& podium) {
  const double score = score_of(row, row.values[index]);
  // Rounding is monotonic, so that a sum below the floor with the ceiling is so with the noise.
  if (score == -kInfinity<double> || score + noise_ceiling(word) < podium_floor(podium)) return;
  enter(podium, score + gumbel_of(word), index);
}

// Every element is its own token: as many at a time as words are made at once.
template <typename Value>
void best_of_all(const ScaledRow<Value>& row, const NoiseKey& key, Podium& podium) {
  for (int64_t begin = 0; begin < row.size; begin += ManyWords::kCount) {
    const int64_t rest = row.size - begin;
    const int64_t count = rest < ManyWords::kCount ? rest : ManyWords::kCount;
    const double best = score_of(row, largest_value(row.values + begin, count));
    if (best == -kInfinity<double> || best + kHighestNoise < podium_floor(podium)) continue;
    const ManyWords words(key, static_cast<uint64_t>(begin / kBlockWords));
    if (best + noise_ceiling(words.highest()) < podium_floor(podium)) continue;
    for (int64_t i = 0; i < count; ++i) consider(row, begin + i, words[i], podium);
  }
}

// The words of up to four token ids.
ONEGLANCE_INLINE void words_of(const NoiseKey& key, const int64_t* ids, int64_t count,
                               uint64_t (&words)[kBlocks]) {
  uint64_t counters[kBlocks] = {};
  uint64_t blocks[kBlocks][kBlockWords];
  for (int64_t i = 0; i < count; ++i) counters[i] = 1 + static_cast<uint64_t>(ids[i]) / kBlockWords;
  philox(key, counters, blocks);
  for (int64_t i = 0; i < count; ++i) {
    words[i] = blocks[i][static_cast<uint64_t>(ids[i]) % kBlockWords];
  }
}

template <typename Value>
void best_with_noise(const ScaledRow<Value>& row, const int64_t* ids, const NoiseKey& key,
                     Podium& podium) {
  if (ids == nullptr) return best_of_all(row, key, podium);
  for (int64_t begin = 0; begin < row.size; begin += kBlocks) {
    const int64_t count = row.size - begin < kBlocks ? row.size - begin : kBlocks;
    uint64_t words[kBlocks];
    words_of(key, ids + begin, count, words);
    for (int64_t i = 0; i < count; ++i) consider(row, begin + i, words[i], podium);
  }
}

void gumbel(const NoiseKey& key, const int64_t* ids, int64_t size, double* noise) {
  for (int64_t begin = 0; begin < size; begin += kBlocks) {
    const int64_t count = size - begin < kBlocks ? size - begin : kBlocks;
    uint64_t words[kBlocks];
    words_of(key, ids + begin, count, words);
    for (int64_t i = 0; i < count; ++i) noise[begin + i] = gumbel_of(words[i]);
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
