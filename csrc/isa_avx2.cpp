#if defined(__x86_64__)

#define ONEGLANCE_ISA avx2

#include "dispatch.h"
#include "kernels/all_kernels.h"

namespace oneglance {

KernelTable avx2_kernels() { return ONEGLANCE_ISA::all_kernels("avx2"); }

}  // namespace oneglance

#endif
