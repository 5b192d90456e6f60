// Rows over the vocabulary: the largest value, what lies above a bound, weights and their sum.
#pragma once

#include "../row_kernels.h"
#include "elementary.h"
#include "exp.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int64_t kScanBlock = 64;

template <typename Value>
using Native = decltype(load_native(static_cast<const Value*>(nullptr)));
template <typename Value>
constexpr int kNativeCount = sizeof(Native<Value>) / sizeof(Value);

template <typename Value>
constexpr Value kInfinity = __builtin_inff();

// The largest of `count` values, -inf if there is none; NaN is never the largest.
template <typename Value>
ONEGLANCE_INLINE Value largest_value(const Value* values, int64_t count) {
  Value lanes[kNativeCount<Value>];
  auto largest = native_broadcast(-kInfinity<Value>);
  int64_t i = 0;
  for (; i + kNativeCount<Value> <= count; i += kNativeCount<Value>) {
    const auto x = load_native(values + i);
    largest = x > largest ? x : largest;
  }
  store_native(lanes, largest);
  Value result = lanes[0];
  for (const Value lane : lanes) result = lane > result ? lane : result;
  for (; i < count; ++i) result = values[i] > result ? values[i] : result;
  return result;
}

// Whether any of a block's values is NaN: a sum of squares is, then and only then.
template <typename Value>
ONEGLANCE_INLINE bool has_nan(const Value* block) {
  auto sum = native_broadcast(Value{0});
  for (int64_t i = 0; i < kScanBlock; i += kNativeCount<Value>) {
    const auto x = load_native(block + i);
    sum = sum + x * x;
  }
  Value total = 0;
  for (int lane = 0; lane < kNativeCount<Value>; ++lane) total += sum[lane];
  return total != total;
}

// One pass over memory, in which a row that was just written is not in the cache yet.
template <typename Value>
int64_t argmax(const Value* values, int64_t size) {
  Value best = -kInfinity<Value>;
  int64_t best_block = 0;
  int64_t i = 0;
  for (; i + kScanBlock <= size && !has_nan(values + i); i += kScanBlock) {
    const Value largest = largest_value(values + i, kScanBlock);
    if (largest > best) {
      best = largest;
      best_block = i;
    }
  }
  // The rest is less than a block, unless a block has a NaN: then the first one is found here.
  int64_t found = best_block;
  while (found < i && values[found] != best) ++found;
  for (; i < size; ++i) {
    if (values[i] != values[i]) return i;
    if (values[i] > best) {
      best = values[i];
      found = i;
    }
  }
  return found;
}

template <typename Value>
int64_t collect(const Value* values, int64_t begin, int64_t end, Value bound, int64_t* indices) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; i += kScanBlock) {
    const int64_t block_end = end - i < kScanBlock ? end : i + kScanBlock;
    if (!(largest_value(values + i, block_end - i) >= bound)) continue;
    for (int64_t j = i; j < block_end; ++j) {
      if (values[j] >= bound) indices[count++] = j;
    }
  }
  return count;
}

// Scores of the sixteen elements from `begin` on; -inf beyond the end of the row.
template <typename Value>
ONEGLANCE_INLINE Doubles scores_from(const ScaledRow<Value>& row, int64_t begin) {
  const Doubles x = load_doubles(row.values + begin, row.size - begin, -kInfinity<double>);
  const Doubles distance = x - broadcast(row.best);
  // Dividing by 1 changes nothing but the time.
  return row.temperature == 1.0 ? distance : distance / broadcast(row.temperature);
}

template <typename Value>
double sum_weights(const ScaledRow<Value>& row, double* block_sums) {
  Doubles sums = broadcast(0.0);
  for (int64_t begin = 0; begin < row.size; begin += kWeightBlock) {
    const int64_t rest = row.size - begin;
    const int64_t end = begin + (rest < kWeightBlock ? rest : kWeightBlock);
    for (int64_t i = begin; i < end; i += kLanes) sums = sums + exp(scores_from(row, i));
    if (block_sums != nullptr) block_sums[begin / kWeightBlock] = sum_of_lanes(sums);
  }
  return sum_of_lanes(sums);
}

double rough_sum(const float* values, int64_t size, float best, float scale) {
  const auto weights_of = [&](const Lanes& x) ONEGLANCE_LAMBDA {
    return exp((x - broadcast(best)) * broadcast(scale));
  };
  Doubles sums = broadcast(0.0);
  float of_block[kLanes];
  for (int64_t i = 0; i < size;) {
    const int64_t end = size - i < kWeightBlock ? size : i + kWeightBlock;
    Lanes sum = broadcast(0.0f);
    for (; i + kLanes <= end; i += kLanes) sum = sum + weights_of(load(values + i));
    if (i < end) {
      sum = sum + weights_of(load_first(values + i, static_cast<int>(end - i), -kInfinity<float>));
      i = end;
    }
    store(of_block, sum);
    sums = sums + load_doubles(of_block);
  }
  return sum_of_lanes(sums);
}

template <typename Value>
void weights(const ScaledRow<Value>& row, int64_t begin, int64_t end, double* target) {
  for (int64_t i = begin; i < end; i += kLanes) {
    store_first(target + (i - begin), end - i, exp(scores_from(row, i)));
  }
}

void exp_doubles(const double* x, int64_t size, double* y) {
  for (int64_t i = 0; i < size; i += kLanes) {
    store_first(y + i, size - i, exp(load_doubles(x + i, size - i, 0.0)));
  }
}

double sum_doubles(const double* x, int64_t size) {
  Doubles sums = broadcast(0.0);
  for (int64_t i = 0; i < size; i += kLanes) {
    sums = sums + load_doubles(x + i, size - i, 0.0);
  }
  return sum_of_lanes(sums);
}

double log_double(double x) { return log(x); }

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
