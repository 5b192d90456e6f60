// Root-mean-square norm (arXiv:1910.07467, Eq. 4).
#pragma once

#include "lanes.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

// Sixteen partial sums, element i in partial i % 16, then the tree of sum_of_lanes.
inline float sum_of_squares(const float* x, int size) {
  Lanes sums = broadcast(0.0f);
  int i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Lanes values = load(x + i);
    sums = sums + values * values;
  }
  if (i < size) {
    // A partial sum is never -0, so adding 0 leaves its bits.
    const Lanes values = load_first(x + i, size - i, 0.0f);
    sums = sums + values * values;
  }
  return sum_of_lanes(sums);
}

// y = (x / sqrt(mean(x^2) + eps)) * weight for each row; y may be x.
void rms_norm(const float* x, int64_t ldx, const float* weight, float eps, int rows, int size,
              float* y, int64_t ldy) {
  for (int row = 0; row < rows; ++row, x += ldx, y += ldy) {
    const float mean = sum_of_squares(x, size) / static_cast<float>(size);
    const float scale = 1.0f / __builtin_sqrtf(mean + eps);
    for (int i = 0; i < size; ++i) y[i] = (x[i] * scale) * weight[i];
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
