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

}  // namespace

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
  const double total = kernels.sum_weights(row, nullptr);
  const double wanted = share * total;
  // Few elements hold most of the mass. The first look is at those of more than 1/64 of the mass
  // that may be missing; each further one at sixteen times smaller ones, at last at all.
  double floor = table.log_double(std::max((1.0 - share) * total / 64, 1e-300));
  for (;; floor = floor - 2.75 > -100.0 ? floor - 2.75 : -std::numeric_limits<double>::infinity()) {
    const std::vector<Ranked> best = ranked_above(kernels, row, floor);
    double sum = 0;
    Indices indices;
    std::vector<double> weights(best.size());
    for (std::size_t i = 0; i < best.size(); ++i) weights[i] = best[i].score;
    table.exp_doubles(weights.data(), static_cast<int64_t>(weights.size()), weights.data());
    for (std::size_t i = 0; i < best.size() && (i == 0 || sum < wanted); ++i) {
      sum = sum + weights[i];
      indices.push_back(best[i].index);
    }
    if (sum < wanted && floor > -std::numeric_limits<double>::infinity()) continue;
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
  template Indices ranked(const RowKernels<Value>&, const Value*, int64_t, int64_t);             \
  template Indices at_least(const RowKernels<Value>&, const ScaledRow<Value>&, double);          \
  template Indices nucleus(const KernelTable&, const ScaledRow<Value>&, double);                 \
  template int64_t draw(const RowKernels<Value>&, const ScaledRow<Value>&, double);
ONEGLANCE_INSTANTIATE(float)
ONEGLANCE_INSTANTIATE(double)
#undef ONEGLANCE_INSTANTIATE

}  // namespace oneglance
