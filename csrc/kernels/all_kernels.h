// Every kernel of the instruction set that isa_*.cpp has chosen.
#pragma once

#include "../kernel_table.h"
#include "layer_kernels.h"
#include "matmul_kernels.h"
#include "row_kernels.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

inline KernelTable all_kernels(const char* name) {
  KernelTable table{};
  table.name = name;
  set_matmul_kernels(table);
  set_layer_kernels(table);
  set_row_kernels(table);
  return table;
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
