// Pseudo-random inputs that are the same on every machine.
//
// Only integer operations and exact float ones: what the C++ library calls a normal distribution
// differs between its implementations. Draw once in a statement: compilers differ in the order in
// which they evaluate the arguments of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oneglance {

// The splitmix64 generator (doi:10.1145/2714064.2660195).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // From 0 to count - 1.
  int below(int count) { return static_cast<int>(next() % static_cast<uint64_t>(count)); }

  // In [-1, 1), a multiple of 2^-23.
  float unit() {
    return static_cast<float>(static_cast<int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23f;
  }

  // Like activations: mostly below 1, now and then 128 times as great.
  float activation() {
    const float value = unit();
    return below(64) == 0 ? value * 128.0f : value;
  }

  std::vector<float> activations(int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = activation();
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace oneglance
