// What every operation runs with: the kernels of one instruction set and a pool of threads.
#pragma once

#include <memory>
#include <string>

#include "dispatch.h"
#include "thread_pool.h"

namespace oneglance {

struct Runtime {
  // `isa` empty: the best that this CPU runs.
  Runtime(const std::string& isa, int num_threads)
      : kernels(kernels_for(isa)), pool(ThreadPool::shared(num_threads)) {}

  const KernelTable& kernels;
  std::shared_ptr<ThreadPool> pool;
};

}  // namespace oneglance
