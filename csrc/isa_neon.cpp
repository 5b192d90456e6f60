#if defined(__aarch64__)

#define ONEGLANCE_ISA neon
#define ONEGLANCE_HAS_NEON_DOT

#include "dispatch.h"
#include "kernels/all_kernels.h"

namespace oneglance {

KernelTable neon_kernels() { return ONEGLANCE_ISA::all_kernels("neon"); }

}  // namespace oneglance

#endif
