#include "thread_pool.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "float_environment.h"
#include "parking.h"

namespace oneglance {
namespace {

// How long threads wait awake at least: between two layers for Python, which needs some ten
// microseconds, and for each other, when all have nearly the same to do.
constexpr Signal::Duration kAwakeForCall{20};
constexpr Signal::Duration kAwakeForOthers{5};

struct BarrierBroken : std::runtime_error {
  BarrierBroken() : std::runtime_error("another thread of this call has failed") {}
};

}  // namespace

// All that the threads share. A forked child abandons its parent's (whose threads and locks it
// cannot use) and makes its own.
struct ThreadPool::State {
  explicit State(int num_threads) : num_threads(num_threads), process(::getpid()) {
    try {
      for (int index = 1; index < num_threads; ++index) {
        workers.emplace_back([this, index] { work(index); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  ~State() { stop(); }

  void stop() {
    is_stopping.store(true);
    calls.advance();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }

  void run(Erased wanted, void* its_context) {
    const std::lock_guard<std::mutex> one_call_at_a_time(call_mutex);
    function = wanted;
    context = its_context;
    has_failed.store(false);
    failure = nullptr;
    num_at_barrier.store(0);
    num_running.store(num_threads);
    const uint32_t seen = ends.number();
    calls.advance();
    call_guarded(0);
    if (num_running.fetch_sub(1) != 1) ends.await_change(seen);
    if (failure) std::rethrow_exception(failure);
  }

  void barrier() {
    // Read in this order: a thread that fails first says so and then advances.
    const uint32_t seen = barriers.number();
    if (has_failed.load()) throw BarrierBroken();
    if (num_at_barrier.fetch_add(1) + 1 == num_threads) {
      num_at_barrier.store(0);
      barriers.advance();
      return;
    }
    barriers.await_change(seen);
    if (has_failed.load()) throw BarrierBroken();
  }

  const int num_threads;
  const pid_t process;

 private:
  void work(int index) {
    for (uint32_t seen = 0;; ++seen) {
      calls.await_change(seen);
      if (is_stopping.load()) return;
      call_guarded(index);
      if (num_running.fetch_sub(1) == 1) ends.advance();
    }
  }

  void call_guarded(int index) {
    const FloatEnvironment environment;
    try {
      function(context, index, num_threads);
    } catch (const BarrierBroken&) {
      // The thread that failed has told already.
    } catch (...) {
      if (!has_failed.exchange(true)) failure = std::current_exception();
      barriers.advance();
    }
  }

  std::mutex call_mutex;
  Erased function = nullptr;
  void* context = nullptr;
  std::exception_ptr failure;

  Signal calls{kAwakeForCall};       // a call begins, or the pool ends
  Signal ends{kAwakeForOthers};      // the last thread of a call is done, and it is not the caller
  Signal barriers{kAwakeForOthers};  // all threads are at the barrier, or one has failed
  alignas(64) std::atomic<int> num_running{0};
  alignas(64) std::atomic<int> num_at_barrier{0};
  alignas(64) std::atomic<bool> has_failed{false};
  std::atomic<bool> is_stopping{false};
  std::vector<std::thread> workers;  // last: they use all of the above
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads), state_(nullptr) {
  if (num_threads < 1 || num_threads > kMaxThreads) {
    throw std::invalid_argument("the number of threads must be from 1 to " +
                                std::to_string(kMaxThreads) + ", not " +
                                std::to_string(num_threads));
  }
  state_ = new State(num_threads);
}

ThreadPool::~ThreadPool() {
  // In a forked child the parent's state is left alone: its threads do not exist here.
  if (state_->process == ::getpid()) delete state_;
}

ThreadPool::State& ThreadPool::state_of_this_process() {
  if (state_->process != ::getpid()) state_ = new State(num_threads_);
  return *state_;
}

void ThreadPool::run_erased(Erased function, void* context) {
  state_of_this_process().run(function, context);
}

void ThreadPool::barrier() { state_->barrier(); }

std::shared_ptr<ThreadPool> ThreadPool::shared(int num_threads) {
  static std::mutex mutex;
  static std::array<std::weak_ptr<ThreadPool>, kMaxThreads + 1> pools;
  if (num_threads < 1 || num_threads > kMaxThreads) return std::make_shared<ThreadPool>(num_threads);
  const std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<ThreadPool> pool = pools[num_threads].lock();
  if (!pool) {
    pool = std::make_shared<ThreadPool>(num_threads);
    pools[num_threads] = pool;
  }
  return pool;
}

}  // namespace oneglance
