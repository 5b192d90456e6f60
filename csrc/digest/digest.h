// Prints a line for each case: its name and a hash of the bits that a kernel gave.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../kernel_table.h"

namespace oneglance {

// FNV-1a of 64 bits (RFC 9923).
class Hash {
 public:
  void add_bytes(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3u;
  }

  template <typename Value>
  void add(const std::vector<Value>& values) {
    add_bytes(values.data(), values.size() * sizeof(Value));
  }

  // All NaNs count as one: which of them an operation gives is the processor's choice.
  void add(const std::vector<float>& values) {
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      if (value != value) bits = 0x7fc00000u;
      add_bytes(&bits, sizeof bits);
    }
  }

  void print(const std::string& name) const {
    std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(value_));
  }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// What outputs hold before a kernel runs, so that a hash also says what it left alone.
constexpr float kUntouched = -12345.0f;

// One per group of kernels.
void digest_matrices(const KernelTable& kernels);
void digest_elements(const KernelTable& kernels);
void digest_attention(const KernelTable& kernels);
void digest_float_matrices(const KernelTable& kernels);
void digest_rows(const KernelTable& kernels);

}  // namespace oneglance
