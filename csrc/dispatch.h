// Chooses the kernels at run time.
#pragma once

#include <string>
#include <vector>

#include "kernel_table.h"

namespace oneglance {

// One per isa_*.cpp.
KernelTable portable_kernels();
#if defined(__x86_64__)
KernelTable avx512_kernels();
KernelTable avx2_kernels();
#elif defined(__aarch64__)
KernelTable neon_kernels();
#endif

// Names of the instruction sets that this build has and this CPU can run, best first.
std::vector<std::string> available_isas();

// The kernels called `name`, or the best ones where `name` is empty. They live as long as the
// process. Throws std::invalid_argument where this build or this CPU has none of that name.
const KernelTable& kernels_for(const std::string& name);

}  // namespace oneglance
