// What the row kernels see: a row of logits over the vocabulary, and how a score is made of each.
#pragma once

#include <cstdint>

namespace oneglance {

// Elements of a row after which `sum_weights` notes the sum so far.
constexpr int64_t kWeightBlock = 256;

// The score of element i is (values[i] - best) / temperature, its weight is e to the score.
template <typename Value>
struct ScaledRow {
  const Value* values;
  int64_t size;
  double best;
  double temperature;
};

// Which stream of Gumbel noise; see src/oneglance/sampling/noise.py for its definition.
struct NoiseKey {
  uint64_t seed;
  uint64_t choice;
  uint64_t position;
};

// The best scores so far, best first, and where they were found. Arrays of `capacity` each.
struct Podium {
  double* scores;
  int64_t* indices;
  int64_t capacity;
  int64_t size;
};

// The kernels of one type of row, float or double.
template <typename Value>
struct RowKernels {
  // Index of the largest value; the first of ties; the first NaN if there is one. size >= 1.
  int64_t (*argmax)(const Value* values, int64_t size);
  // Writes the indices in [begin, end) whose value is at least `bound`, ascending, and returns how
  // many there are; NaN is never among them. Room for end - begin indices.
  int64_t (*collect)(const Value* values, int64_t begin, int64_t end, Value bound,
                     int64_t* indices);
  // The sum of all weights; block_sums[b], unless null, gets that of the elements before
  // (b + 1) * kWeightBlock.
  double (*sum_weights)(const ScaledRow<Value>& row, double* block_sums);
  // Weights of the elements in [begin, end), written from weights[0] on.
  void (*weights)(const ScaledRow<Value>& row, int64_t begin, int64_t end, double* weights);
  // The elements of greatest score plus noise. `ids`, ascending, are their tokens; null: their
  // indices are. Elements of score -inf are left out; ties go to the lowest index.
  void (*best_with_noise)(const ScaledRow<Value>& row, const int64_t* ids, const NoiseKey& key,
                          Podium& podium);
};

}  // namespace oneglance
