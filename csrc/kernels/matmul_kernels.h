// Kernels of the packed matrices. Included once per instruction set, see isa_portable.cpp.
//
// Everything has internal linkage, and nothing of the standard library that is a template is
// called: the linker must not merge functions that were compiled for different instruction sets.
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(ONEGLANCE_HAS_NEON_DOT)
#include <arm_neon.h>
#endif

#include "../half.h"
#include "../kernel_table.h"

#include "forms.h"
#include "lanes.h"
#include "quantize.h"
#include "embed.h"
#include "dots.h"
#include "unpack.h"
#include "matmul.h"
#include "matmul_floats.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

inline void set_matmul_kernels(KernelTable& table) {
  table.quantize_rows = &quantize_rows;
  table.matmul = &matmul;
  table.matmul_floats = &matmul_floats;
  table.embed = &embed;
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
