#include "dispatch.h"

#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace oneglance {
namespace {

struct Choice {
  std::string name;
  bool runs_here;
  KernelTable table;  // empty where it does not run here
};

// Even the function that makes the table may use instructions that only its own CPUs have.
Choice make_choice(const char* name, bool runs_here, KernelTable (*kernels)()) {
  return {name, runs_here, runs_here ? kernels() : KernelTable{}};
}

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports does not know it. The registers are those of AVX.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && has_f16c(); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
bool has_neon_dot() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
  return true;  // from the first Mac of this kind on
#else
  return false;
#endif
}
#endif

// Best first. A function-local static, so that nothing runs before the module is asked for.
const std::vector<Choice>& choices() {
  static const std::vector<Choice> found = [] {
    std::vector<Choice> list;
#if defined(__x86_64__)
    list.push_back(make_choice("avx512", has_avx512(), avx512_kernels));
    list.push_back(make_choice("avx2", has_avx2(), avx2_kernels));
#elif defined(__aarch64__)
    list.push_back(make_choice("neon", has_neon_dot(), neon_kernels));
#endif
    list.push_back(make_choice("portable", true, portable_kernels));
    return list;
  }();
  return found;
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Choice& choice : choices()) {
    if (choice.runs_here) names.push_back(choice.name);
  }
  return names;
}

const KernelTable& kernels_for(const std::string& name) {
  for (const Choice& choice : choices()) {
    const bool is_wanted = name.empty() ? choice.runs_here : name == choice.name;
    if (!is_wanted) continue;
    if (!choice.runs_here) {
      throw std::invalid_argument("this CPU lacks the instruction set " + name);
    }
    return choice.table;
  }
  throw std::invalid_argument("this build has no kernels called '" + name + "'");
}

}  // namespace oneglance
