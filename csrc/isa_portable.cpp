#define ONEGLANCE_ISA portable

#include "dispatch.h"
#include "kernels/layer_kernels.h"
#include "kernels/matmul_kernels.h"
#include "kernels/row_kernels.h"

namespace oneglance {

KernelTable portable_kernels() {
  KernelTable table{};
  table.name = "portable";
  ONEGLANCE_ISA::set_matmul_kernels(table);
  ONEGLANCE_ISA::set_layer_kernels(table);
  ONEGLANCE_ISA::set_row_kernels(table);
  return table;
}

}  // namespace oneglance
