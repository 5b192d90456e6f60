#include "thread_pool.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "float_environment.h"

namespace oneglance {
namespace {

using Clock = std::chrono::steady_clock;

// Between two layers Python needs some ten microseconds, between two passes a millisecond or so:
// waiting awake bridges the first and most of the second. Waking a parked thread costs about 50 µs.
constexpr auto kAwakeTime = std::chrono::microseconds(500);
// The first of it without the system's help; what takes longer may be for want of a core, which
// yielding gives to whoever is to be waited for.
constexpr auto kSpinTime = std::chrono::microseconds(30);
constexpr int kPausesPerLook = 64;

inline void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// True once `is_ready()`; false after `most` time.
template <typename Predicate>
bool spin_until(Predicate is_ready, Clock::duration most) {
  const auto look = [&] {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (is_ready()) return true;
      pause_briefly();
    }
    return false;
  };
  if (look()) return true;
  const auto deadline = Clock::now() + most;
  while (Clock::now() < deadline) {
    if (look()) return true;
  }
  return is_ready();
}

// The same, yielding to other threads and processes after the first moments.
template <typename Predicate>
bool stay_awake_until(Predicate is_ready, Clock::duration most = kAwakeTime) {
  const auto deadline = Clock::now() + most;
  if (spin_until(is_ready, kSpinTime)) return true;
  while (!is_ready()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

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
    {
      const std::lock_guard<std::mutex> guard(mutex);
      is_stopping = true;
      call_number.fetch_add(1);
    }
    wake.notify_all();
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
    num_running.store(num_threads - 1);
    start_call();
    call_guarded(0);
    await_workers();
    if (failure) std::rethrow_exception(failure);
  }

  void barrier() {
    // A thread that waits here learns that all are there by the change of barrier_number.
    const uint32_t number = barrier_number.load();
    if (num_at_barrier.fetch_add(1) + 1 == num_threads) {
      num_at_barrier.store(0);
      barrier_number.fetch_add(1);
      return;
    }
    const auto may_go = [&] { return barrier_number.load() != number || has_failed.load(); };
    while (!stay_awake_until(may_go)) {
    }
    if (barrier_number.load() == number) throw BarrierBroken();
  }

  const int num_threads;
  const pid_t process;

 private:
  void start_call() {
    {
      const std::lock_guard<std::mutex> guard(mutex);
      call_number.fetch_add(1);
      if (num_parked == 0) return;
    }
    wake.notify_all();
  }

  void await_workers() {
    const auto are_done = [&] { return num_running.load() == 0; };
    if (stay_awake_until(are_done)) return;
    std::unique_lock<std::mutex> lock(mutex);
    done.wait(lock, are_done);
  }

  void work(int index) {
    uint32_t seen = 0;
    for (;;) {
      const auto has_call = [&] { return call_number.load() != seen; };
      if (!stay_awake_until(has_call)) {
        std::unique_lock<std::mutex> lock(mutex);
        ++num_parked;
        wake.wait(lock, has_call);
        --num_parked;
      }
      seen = call_number.load();
      if (is_stopping.load()) return;
      call_guarded(index);
      finish();
    }
  }

  void finish() {
    if (num_running.fetch_sub(1) != 1) return;
    // The caller may be between its last look and its sleep: passing the lock orders the two.
    { const std::lock_guard<std::mutex> guard(mutex); }
    done.notify_one();
  }

  void call_guarded(int index) {
    const FloatEnvironment environment;
    try {
      function(context, index, num_threads);
    } catch (const BarrierBroken&) {
      // The thread that failed has told already.
    } catch (...) {
      if (!has_failed.exchange(true)) failure = std::current_exception();
    }
  }

  std::mutex call_mutex;
  Erased function = nullptr;
  void* context = nullptr;
  std::exception_ptr failure;

  // Looked at by spinning threads: each on a cache line of its own.
  alignas(64) std::atomic<uint32_t> call_number{0};
  alignas(64) std::atomic<int> num_running{0};
  alignas(64) std::atomic<int> num_at_barrier{0};
  alignas(64) std::atomic<uint32_t> barrier_number{0};
  alignas(64) std::atomic<bool> has_failed{false};
  std::atomic<bool> is_stopping{false};

  std::mutex mutex;  // guards num_parked, and the sleeps
  std::condition_variable wake;
  std::condition_variable done;
  int num_parked = 0;
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
