// Kernels of rows over the vocabulary. Included once per instruction set.
#pragma once

#include "../kernel_table.h"
#include "gumbel.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

template <typename Value>
RowKernels<Value> row_kernels() {
  return {argmax<Value>, collect<Value>, sum_weights<Value>, weights<Value>,
          best_with_noise<Value>};
}

void set_row_kernels(KernelTable& table) {
  table.float_rows = row_kernels<float>();
  table.double_rows = row_kernels<double>();
  table.rough_sum = rough_sum;
  table.exp_doubles = exp_doubles;
  table.sum_doubles = sum_doubles;
  table.log_double = log_double;
  table.gumbel = gumbel;
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
