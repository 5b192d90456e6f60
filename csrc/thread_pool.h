// A small pool of threads that spin for a bounded time, then park: see parking.h.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace oneglance {

// `run` calls one function on every thread, the caller included, and returns when all are done.
//
// - Calls from several threads are serialised: one runs, the others wait for it.
// - The function must not call `run` of the same pool.
// - An exception of the function is rethrown to the caller (the first one), after all have ended.
// - A thread that waits, for a call, at a barrier or for the others' end, spins for some ten
//   microseconds, then sleeps.
// - The function runs with float_environment.h's arithmetic on every thread.
// - After fork, the child's first call starts workers of its own.
class ThreadPool {
 public:
  // Throws std::invalid_argument unless 1 <= num_threads <= kMaxThreads.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The process's pool of that size. Engines of one size share it, so that the spinning workers
  // of one (a target) don't take the cores of the other (its drafter).
  static std::shared_ptr<ThreadPool> shared(int num_threads);

  int num_threads() const { return num_threads_; }

  // Calls function(thread_index, num_threads) on all threads.
  template <typename Function>
  void run(Function&& function) {
    using Plain = std::remove_reference_t<Function>;
    run_erased([](void* context, int index, int count) { (*static_cast<Plain*>(context))(index, count); },
               const_cast<void*>(static_cast<const void*>(&function)));
  }

  // Waits until every thread of the running call is here. Only inside `run`, by all its threads.
  // Throws where another thread's function has thrown, so that none waits for it forever.
  void barrier();

  static constexpr int kMaxThreads = 256;

 private:
  struct State;
  using Erased = void (*)(void* context, int index, int count);

  void run_erased(Erased function, void* context);
  State& state_of_this_process();

  int num_threads_;
  State* state_;
};

// The part [begin, end) of `size` items that falls to thread `index` of `count`.
struct Range {
  int begin;
  int end;
};
inline Range part_of(int size, int index, int count) {
  const auto cut = [&](int i) { return static_cast<int>(static_cast<long long>(size) * i / count); };
  return {cut(index), cut(index + 1)};
}

}  // namespace oneglance
