// SiLU(gate) * up (arXiv:2002.05202, Eq. 6).
#pragma once

#include "exp.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

ONEGLANCE_INLINE Lanes gated(const Lanes& gate, const Lanes& up) {
  const Lanes sigmoid_inverse = broadcast(1.0f) + exp(broadcast(0.0f) - gate);
  return (gate / sigmoid_inverse) * up;
}

// y[r][i] for i in [begin, end); y may be gate or up.
void swiglu(const float* gate, const float* up, int64_t ld, int rows, int begin, int end, float* y,
            int64_t ldy) {
  for (int row = 0; row < rows; ++row, gate += ld, up += ld, y += ldy) {
    int i = begin;
    for (; i + kLanes <= end; i += kLanes) store(y + i, gated(load(gate + i), load(up + i)));
    if (i < end) {
      const int rest = end - i;
      const Lanes tail =
          gated(load_first(gate + i, rest, 0.0f), load_first(up + i, rest, 0.0f));
      store_first(y + i, rest, tail);
    }
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
