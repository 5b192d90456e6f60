// What the threads of a pool wait for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace oneglance {

// A number that is counted up, and that threads wait for to change: awake at first, then asleep.
//
// Awake means spinning, without yielding. It pays as long as the others are at work: to wake a
// sleeper costs about 50 µs. Where they are in want of a core instead, because another process is
// on it, a thread that sleeps gives the system an idle core to put them on; one that spins keeps
// that core busy, and one that yields loses its own core for a whole time slice whenever somebody
// else wants it. Which of the two it is shows in the waits before: each that ended awake makes the
// next a little more patient, each that did not makes it much less so.
class alignas(64) Signal {
 public:
  using Duration = std::chrono::microseconds;

  // Waits stay awake for at least that long.
  explicit Signal(Duration least) : least_(least), patience_(kMost) {}

  uint32_t number() const { return number_.load(); }

  void advance() {
    number_.fetch_add(1);
    // Both this and a sleeper write first and then read what the other writes, in one order of all
    // such operations: so either the sleeper sees the new number, or this sees the sleeper.
    if (num_asleep_.load() == 0) return;
    { const std::lock_guard<std::mutex> guard(mutex_); }
    changed_.notify_all();
  }

  // Returns once the number differs from `seen`.
  void await_change(uint32_t seen) {
    const auto has_changed = [&] { return number_.load() != seen; };
    // Threads that wait at once may overwrite each other's patience: it is a guess anyway.
    const Duration patience = patience_.load(std::memory_order_relaxed);
    const bool was_awake = spin_until(has_changed, patience);
    const Duration next = was_awake ? std::min(patience + kMore, kMost)
                                    : std::max(patience / kLess, least_);
    patience_.store(next, std::memory_order_relaxed);
    if (was_awake) return;
    std::unique_lock<std::mutex> lock(mutex_);
    num_asleep_.fetch_add(1);
    changed_.wait(lock, has_changed);
    num_asleep_.fetch_sub(1);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kPausesPerLook = 64;
  static constexpr Duration kMost{200};
  static constexpr Duration kMore{1};
  static constexpr int kLess = 4;

  static void pause_briefly() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
  }

  // True once `is_ready()`; false after `most` time.
  template <typename Predicate>
  static bool spin_until(Predicate is_ready, Duration most) {
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

  const Duration least_;
  std::atomic<Duration> patience_;
  std::atomic<uint32_t> number_{0};
  std::atomic<int> num_asleep_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace oneglance
