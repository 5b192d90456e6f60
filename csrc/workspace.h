// Buffers that passes share, with what they run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "packed.h"
#include "runtime.h"

namespace oneglance {

// Memory for `count` items, aligned to a cache line; grows when needed and never shrinks. Its
// content is lost when it grows.
template <typename Item>
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void reserve(int64_t count) {
    if (count <= capacity_) return;
    release();
    data_ = static_cast<Item*>(
        ::operator new(static_cast<std::size_t>(count) * sizeof(Item), kAlignment));
    capacity_ = count;
  }

  Item* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};

  void release() {
    if (data_ != nullptr) ::operator delete(data_, kAlignment);
    data_ = nullptr;
    capacity_ = 0;
  }

  Item* data_ = nullptr;
  int64_t capacity_ = 0;
};

// Where each thread has floats of its own in one buffer: between them lies a page, which the
// hardware's prefetching doesn't cross. Without it one thread's core fetches lines that the next
// thread is writing, which made attention over 32 rows take 40 % longer.
class OwnParts {
 public:
  explicit OwnParts(int64_t size) : stride_(size + kApart) {}

  int64_t total(int num_threads) const { return stride_ * num_threads; }
  float* of(float* data, int thread) const { return data + stride_ * thread; }

 private:
  static constexpr int64_t kApart = 4096 / sizeof(float);
  int64_t stride_;
};

// Quantised rows of up to so many inputs and planes.
class QuantizedBuffer {
 public:
  // Empty rows where there are no planes, as no matrix takes them.
  QuantizedRows reserve(int64_t rows, int64_t inputs, int planes) {
    if (planes == 0) return {};
    const int64_t groups = rows * planes * (inputs / kGroup);
    values_.reserve(groups * kGroup);
    scales_.reserve(groups);
    sums_.reserve(groups);
    return {values_.data(), scales_.data(), sums_.data(), planes};
  }

 private:
  Buffer<int8_t> values_;
  Buffer<float> scales_;
  Buffer<int32_t> sums_;
};

// Cosines and sines of every position, [context][head_dim / 2] each.
struct RopeTables {
  std::vector<float> cos;
  std::vector<float> sin;
  int context = 0;
  int half_dim = 0;
};

// One operation at a time uses a workspace; it holds the mutex meanwhile.
struct Workspace {
  Workspace(const Runtime& runtime, RopeTables rope)
      : runtime(&runtime), rope(std::move(rope)) {}

  const Runtime* runtime;
  RopeTables rope;
  std::mutex mutex;
  Buffer<float> normed;     // [R][hidden]
  Buffer<float> projected;  // [R][hidden]
  Buffer<float> qkv;        // [R][heads of queries, keys, values][head_dim]
  Buffer<float> mixed;      // [R][query heads][head_dim]
  Buffer<float> gate;       // [R][intermediate]
  Buffer<float> up;         // [R][intermediate]
  Buffer<float> scratch;    // of attention, one part a thread
  QuantizedBuffer outer;    // what enters a block
  QuantizedBuffer inner;    // what enters its last matrix
};

}  // namespace oneglance
