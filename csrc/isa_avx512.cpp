#if defined(__x86_64__)

#define ONEGLANCE_ISA avx512
// Not the compiler's own macros, which csrc/digest/ has to do without.
#define ONEGLANCE_HAS_AVX512

#include "dispatch.h"
#include "kernels/all_kernels.h"

namespace oneglance {

KernelTable avx512_kernels() { return ONEGLANCE_ISA::all_kernels("avx512"); }

}  // namespace oneglance

#endif
