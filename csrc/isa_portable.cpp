#define ONEGLANCE_ISA portable

#include "dispatch.h"
#include "kernels/all_kernels.h"

namespace oneglance {

KernelTable portable_kernels() { return ONEGLANCE_ISA::all_kernels("portable"); }

}  // namespace oneglance
