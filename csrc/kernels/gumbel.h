// Keyed Gumbel noise, defined bit by bit in src/oneglance/sampling/noise.py, and the elements that
// are best with it. Most of them can be told not to win by a look at their random word, without a
// logarithm.
#pragma once

#include "philox.h"
#include "rows.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

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
  for (int64_t begin = 0; begin < row.size; begin += ConsecutiveWords::kCount) {
    const int64_t rest = row.size - begin;
    const int64_t count = rest < ConsecutiveWords::kCount ? rest : ConsecutiveWords::kCount;
    const double best = score_of(row, largest_value(row.values + begin, count));
    if (best == -kInfinity<double> || best + kHighestNoise < podium_floor(podium)) continue;
    const ConsecutiveWords words(key, static_cast<uint64_t>(begin / kBlockWords));
    if (best + noise_ceiling(words.highest()) < podium_floor(podium)) continue;
    for (int64_t i = 0; i < count; ++i) consider(row, begin + i, words[i], podium);
  }
}

constexpr int kBlocks = 4;  // computed side by side for single tokens

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
