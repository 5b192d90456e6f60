#if defined(__x86_64__)

#define ONEGLANCE_ISA avx2

#include "dispatch.h"
#include "kernels/layer_kernels.h"
#include "kernels/matmul_kernels.h"
#include "kernels/row_kernels.h"

namespace oneglance {

KernelTable avx2_kernels() {
  KernelTable table{};
  table.name = "avx2";
  ONEGLANCE_ISA::set_matmul_kernels(table);
  ONEGLANCE_ISA::set_layer_kernels(table);
  ONEGLANCE_ISA::set_row_kernels(table);
  return table;
}

}  // namespace oneglance

#endif
