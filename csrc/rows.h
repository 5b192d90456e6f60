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

// The sum of e^((value - best) * scale), the exponentials in the row's own precision; no value may
// be NaN.
double sum_exps(const KernelTable& table, const float* values, int64_t size, float best,
                float scale = 1.0f);
double sum_exps(const KernelTable& table, const double* values, int64_t size, double best);

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
