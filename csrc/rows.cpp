#include "rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oneglance {
namespace {

// Elements that are looked at between two looks at the bound.
constexpr int64_t kChunk = 1024;

struct Ranked {
  double score;
  int64_t index;
};

// Best first; a total order, as no score is NaN.
bool operator<(const Ranked& a, const Ranked& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

template <typename Value>
double score_of(const ScaledRow<Value>& row, int64_t index) {
  return (double{row.values[index]} - row.best) / row.temperature;
}

// A value below that of every element whose score is at least `floor`.
template <typename Value>
Value value_bound(const ScaledRow<Value>& row, double floor) {
  const double distance = floor * row.temperature;
  // Far more than what rounding can move a score, underflow to 0 included.
  const double slack =
      1e-12 * (std::fabs(row.best) + std::fabs(distance)) + row.temperature * 0x1p-1070;
  const auto bound = static_cast<Value>(row.best + distance - slack);
  const Value lowest = -std::numeric_limits<Value>::infinity();
  return std::isfinite(bound) ? std::nextafter(bound, lowest) : lowest;
}

// All elements whose score is at least `floor`, best first.
template <typename Value>
std::vector<Ranked> ranked_above(const RowKernels<Value>& kernels, const ScaledRow<Value>& row,
                                 double floor) {
  std::vector<Ranked> found;
  for (const int64_t index : at_least(kernels, row, floor)) {
    found.push_back({score_of(row, index), index});
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Where the sum of all weights lies.
struct Total {
  double low;
  double high;
};

template <typename Value>
Total exact_total(const KernelTable& table, const ScaledRow<Value>& row) {
  const double total = row_kernels(table, Value{}).sum_weights(row, nullptr);
  return {total, total};
}

// Bounds for the sum of all weights, in a quarter of the time of the sum itself. A score s in float
// is within 2^-22 |s| of the true one, its exponential within 2^-23 of what it should be of that,
// and a sum of sixteen within 2^-20: 87 * 2^-22 and the others stay below the margin. Weights below
// e^-87 are missing, which is nothing beside the largest, 1.
Total bounded_total(const KernelTable& table, const ScaledRow<float>& row) {
  constexpr double kMargin = 3e-5;
  if (!(row.temperature >= 1e-3 && row.temperature <= 1e3)) return exact_total(table, row);
  const double total = table.rough_sum(row.values, row.size, static_cast<float>(row.best),
                                       static_cast<float>(1.0 / row.temperature));
  return {total * (1.0 - kMargin), total * (1.0 + kMargin)};
}

Total bounded_total(const KernelTable& table, const ScaledRow<double>& row) {
  return exact_total(table, row);
}

}  // namespace

template <typename Value>
double log_normalizer(const KernelTable& table, const Value* values, int64_t size,
                      int64_t argmax) {
  const double best = values[argmax];
  if (!std::isfinite(best)) return std::numeric_limits<double>::quiet_NaN();
  const ScaledRow<Value> scores{values, size, best, 1.0};
  return best + table.log_double(row_kernels(table, Value{}).sum_weights(scores, nullptr));
}

template <typename Value>
Indices ranked(const RowKernels<Value>& kernels, const Value* values, int64_t size,
               int64_t count) {
  count = std::min(count, size);
  std::vector<Ranked> best;
  int64_t found[kChunk];
  Value bound = -std::numeric_limits<Value>::infinity();
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    const int64_t end = std::min(size, begin + kChunk);
    const int64_t num_found = kernels.collect(values, begin, end, bound, found);
    for (int64_t i = 0; i < num_found; ++i) best.push_back({double{values[found[i]]}, found[i]});
    if (static_cast<int64_t>(best.size()) < 2 * count + kChunk && end < size) continue;
    if (static_cast<int64_t>(best.size()) > count) {
      std::nth_element(best.begin(), best.begin() + count - 1, best.end());
      best.resize(static_cast<std::size_t>(count));
      bound = values[best.back().index];  // an equal value that comes later loses the tie
    }
  }
  std::sort(best.begin(), best.end());
  Indices indices;
  for (const Ranked& element : best) indices.push_back(element.index);
  return indices;
}

template <typename Value>
Indices at_least(const RowKernels<Value>& kernels, const ScaledRow<Value>& row, double floor) {
  const Value bound = value_bound(row, floor);
  Indices indices;
  int64_t found[kChunk];
  for (int64_t begin = 0; begin < row.size; begin += kChunk) {
    const int64_t end = std::min(row.size, begin + kChunk);
    const int64_t num_found = kernels.collect(row.values, begin, end, bound, found);
    for (int64_t i = 0; i < num_found; ++i) {
      if (score_of(row, found[i]) >= floor) indices.push_back(found[i]);
    }
  }
  return indices;
}

template <typename Value>
Indices nucleus(const KernelTable& table, const ScaledRow<Value>& row, double share) {
  const RowKernels<Value>& kernels = row_kernels(table, Value{});
  Total total = bounded_total(table, row);
  // The sum itself is computed only where the bounds leave open whether a prefix is long enough.
  const auto is_enough = [&](double sum) {
    if (sum >= share * total.high) return true;
    if (sum < share * total.low) return false;
    total = exact_total(table, row);
    return sum >= share * total.low;
  };
  // Few elements hold most of the mass. The first look is at those of more than 1/64 of the mass
  // that may be missing; each further one at sixteen times smaller ones, at last at all.
  double floor = table.log_double(std::max((1.0 - share) * total.low / 64, 1e-300));
  for (;; floor = floor - 2.75 > -100.0 ? floor - 2.75 : -std::numeric_limits<double>::infinity()) {
    const std::vector<Ranked> best = ranked_above(kernels, row, floor);
    double sum = 0;
    Indices indices;
    std::vector<double> weights(best.size());
    for (std::size_t i = 0; i < best.size(); ++i) weights[i] = best[i].score;
    table.exp_doubles(weights.data(), static_cast<int64_t>(weights.size()), weights.data());
    for (std::size_t i = 0; i < best.size() && (i == 0 || !is_enough(sum)); ++i) {
      sum = sum + weights[i];
      indices.push_back(best[i].index);
    }
    if (floor > -std::numeric_limits<double>::infinity() && !is_enough(sum)) continue;
    std::sort(indices.begin(), indices.end());
    return indices;
  }
}

template <typename Value>
int64_t draw(const RowKernels<Value>& kernels, const ScaledRow<Value>& row, double uniform) {
  const auto num_blocks = static_cast<std::size_t>((row.size + kWeightBlock - 1) / kWeightBlock);
  std::vector<double> sums(num_blocks);
  const double total = kernels.sum_weights(row, sums.data());
  const double target = uniform * total;
  auto block = std::upper_bound(sums.begin(), sums.end(), target);
  // Where rounding made the target the total: the last block that has any mass.
  if (block == sums.end()) block = std::lower_bound(sums.begin(), sums.end(), total);
  const int64_t begin = (block - sums.begin()) * kWeightBlock;
  const int64_t end = std::min(row.size, begin + kWeightBlock);
  double weights[kWeightBlock];
  kernels.weights(row, begin, end, weights);
  double sum = block == sums.begin() ? 0.0 : *(block - 1);
  int64_t last = begin;
  for (int64_t i = begin; i < end; ++i) {
    sum = sum + weights[i - begin];
    if (sum > target) return i;
    if (weights[i - begin] > 0) last = i;
  }
  return last;
}

#define ONEGLANCE_INSTANTIATE(Value)                                                             \
  template double log_normalizer(const KernelTable&, const Value*, int64_t, int64_t);            \
  template Indices ranked(const RowKernels<Value>&, const Value*, int64_t, int64_t);             \
  template Indices at_least(const RowKernels<Value>&, const ScaledRow<Value>&, double);          \
  template Indices nucleus(const KernelTable&, const ScaledRow<Value>&, double);                 \
  template int64_t draw(const RowKernels<Value>&, const ScaledRow<Value>&, double);
ONEGLANCE_INSTANTIATE(float)
ONEGLANCE_INSTANTIATE(double)
#undef ONEGLANCE_INSTANTIATE

}  // namespace oneglance
