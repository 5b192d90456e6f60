#include "bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime.h"

namespace oneglance {
namespace {

// For tests of the pool: every thread adds 1 to its own counter, meets the others at a barrier and
// reads theirs; a counter that lags behind means a barrier that lets threads through too early.
// Returns the rounds that each thread has seen complete. Thread `failing_thread` throws instead.
std::vector<int> probe_pool(const Runtime& runtime, int num_rounds, int failing_thread) {
  ThreadPool& pool = *runtime.pool;
  std::vector<int> counters(pool.num_threads(), 0);
  std::vector<int> complete(pool.num_threads(), 0);
  pool.run([&](int index, int count) {
    if (index == failing_thread) throw std::runtime_error("thread " + std::to_string(index));
    for (int round = 1; round <= num_rounds; ++round) {
      counters[index] = round;
      pool.barrier();
      bool are_all_here = true;
      for (int other = 0; other < count; ++other) are_all_here &= counters[other] == round;
      complete[index] += are_all_here;
      pool.barrier();
    }
  });
  return complete;
}

void bind_runtime(nb::module_& module) {
  module.def("available_isas", &available_isas,
             "Instruction sets that this build has and this CPU runs, best first.");
  nb::class_<Runtime>(module, "Runtime",
                      "The kernels of one instruction set and a pool of threads.")
      .def(nb::init<const std::string&, int>(), nb::arg("isa"), nb::arg("num_threads"))
      .def_prop_ro("isa", [](const Runtime& runtime) { return runtime.kernels.name; })
      .def_prop_ro("num_threads",
                   [](const Runtime& runtime) { return runtime.pool->num_threads(); });
  module.def("probe_pool", &probe_pool, nb::arg("runtime"), nb::arg("num_rounds"),
             nb::arg("failing_thread") = -1, nb::call_guard<nb::gil_scoped_release>(),
             "Rounds in which each thread met all others at a barrier; for tests.");
}

}  // namespace
}  // namespace oneglance

NB_MODULE(_native, module) {
  module.doc() = "Compiled kernels of the native engine.";
  oneglance::bind_runtime(module);
  oneglance::bind_matmul(module);
  oneglance::bind_layer(module);
  oneglance::bind_chain(module);
  oneglance::bind_rows(module);
  oneglance::bind_suffix(module);
}
