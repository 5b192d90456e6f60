// What is made of the row kernels: the best elements, the smallest set that holds a share of the
// mass, a draw. Defined in src/oneglance/sampling/row_kernels.py; the same bits as the numpy form.
#pragma once

#include <vector>

#include "kernel_table.h"

namespace oneglance {

using Indices = std::vector<int64_t>;

// The kernels of a row's type.
inline const RowKernels<float>& row_kernels(const KernelTable& table, float) {
  return table.float_rows;
}
inline const RowKernels<double>& row_kernels(const KernelTable& table, double) {
  return table.double_rows;
}

// The log of the sum of e^value, where the largest value, or the first NaN, is at `argmax`; NaN if
// that is not finite.
template <typename Value>
double log_normalizer(const KernelTable& table, const Value* values, int64_t size, int64_t argmax);

// The `count` largest values, best first; ties go to the lowest index, NaN is never among them.
template <typename Value>
Indices ranked(const RowKernels<Value>& kernels, const Value* values, int64_t size, int64_t count);

// Indices, ascending, of the elements whose score is at least `floor`.
template <typename Value>
Indices at_least(const RowKernels<Value>& kernels, const ScaledRow<Value>& row, double floor);

// Indices, ascending, of the shortest prefix in descending order of score (ties by lowest index)
// whose weights reach `share` of the sum of all.
template <typename Value>
Indices nucleus(const KernelTable& table, const ScaledRow<Value>& row, double share);

// The index at which the cumulative weights first exceed `uniform` times their sum.
template <typename Value>
int64_t draw(const RowKernels<Value>& kernels, const ScaledRow<Value>& row, double uniform);

}  // namespace oneglance
