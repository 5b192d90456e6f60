// Prints what the kernels of one instruction set compute, so that instruction sets can be compared
// that no single machine has.
//
//   digest           names of the instruction sets that run here, best first
//   digest ISA       the digest of that one
#include <cstdio>
#include <exception>
#include <string>

#include "../dispatch.h"
#include "digest.h"

namespace {

// Emulated instructions run on any CPU, whatever it says of itself.
oneglance::KernelTable kernels_called(const std::string& name) {
#if defined(ONEGLANCE_EMULATE_AVX512)
  if (name == "avx512") return oneglance::avx512_kernels();
#endif
  return oneglance::kernels_for(name);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    for (const std::string& name : oneglance::available_isas()) std::puts(name.c_str());
    return 0;
  }
  try {
    const oneglance::KernelTable kernels = kernels_called(arguments[1]);
    oneglance::digest_matrices(kernels);
    oneglance::digest_elements(kernels);
    oneglance::digest_attention(kernels);
    oneglance::digest_float_matrices(kernels);
    oneglance::digest_rows(kernels);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
