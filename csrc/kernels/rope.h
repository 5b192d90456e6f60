// Rotary position embedding (arXiv:2104.09864), element i with element i + head_dim / 2.
#pragma once

#include <cstdint>

namespace oneglance::ONEGLANCE_ISA {
namespace {

inline void rotate_head(float* head, int half, const float* cos, const float* sin) {
  float* first = head;
  float* second = head + half;
  for (int i = 0; i < half; ++i) {
    const float a = first[i];
    const float b = second[i];
    first[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i] + a * sin[i];
  }
}

// Rotates `num_heads` heads of each row in place; the tables are [context][head_dim / 2].
void rope(float* heads, int64_t ld, int rows, int num_heads, int head_dim, const float* cos,
          const float* sin, const int32_t* positions) {
  const int half = head_dim / 2;
  for (int row = 0; row < rows; ++row) {
    const int64_t offset = static_cast<int64_t>(positions[row]) * half;
    for (int head = 0; head < num_heads; ++head) {
      rotate_head(heads + row * ld + static_cast<int64_t>(head) * head_dim, half, cos + offset,
                  sin + offset);
    }
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
