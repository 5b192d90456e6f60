#include "dispatch.h"

#include <stdexcept>

namespace oneglance {
namespace {

struct Choice {
  bool runs_here;
  KernelTable table;
};

// Best first. A function-local static, so that nothing runs before the module is asked for.
const std::vector<Choice>& choices() {
  static const std::vector<Choice> found = [] {
    std::vector<Choice> list;
#if defined(__x86_64__)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    list.push_back({has_avx2, avx2_kernels()});
#endif
    list.push_back({true, portable_kernels()});
    return list;
  }();
  return found;
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Choice& choice : choices()) {
    if (choice.runs_here) names.emplace_back(choice.table.name);
  }
  return names;
}

const KernelTable& kernels_for(const std::string& name) {
  for (const Choice& choice : choices()) {
    const bool is_wanted = name.empty() ? choice.runs_here : name == choice.table.name;
    if (!is_wanted) continue;
    if (!choice.runs_here) {
      throw std::invalid_argument("this CPU lacks the instruction set " + name);
    }
    return choice.table;
  }
  throw std::invalid_argument("this build has no kernels called '" + name + "'");
}

}  // namespace oneglance
