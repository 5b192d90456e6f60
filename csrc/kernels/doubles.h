// Sixteen doubles that are computed side by side; see lanes.h, which does the same with floats.
#pragma once

#include "lanes.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kNativeDoubles = kNativeLanes / 2;
constexpr int kDoubleParts = kLanes / kNativeDoubles;

typedef double NativeDoubles __attribute__((vector_size(kNativeDoubles * sizeof(double))));
typedef uint64_t NativeWords __attribute__((vector_size(kNativeDoubles * sizeof(uint64_t))));
// The same anywhere in memory.
typedef double LooseDoubles __attribute__((vector_size(kNativeDoubles * sizeof(double)),
                                           aligned(alignof(double)), may_alias));
typedef float LooseHalfFloats __attribute__((vector_size(kNativeDoubles * sizeof(float)),
                                             aligned(alignof(float)), may_alias));

// One native vector of either type, from anywhere in memory.
ONEGLANCE_INLINE NativeFloats load_native(const float* source) {
  return *reinterpret_cast<const LooseFloats*>(source);
}

ONEGLANCE_INLINE NativeDoubles load_native(const double* source) {
  return *reinterpret_cast<const LooseDoubles*>(source);
}

ONEGLANCE_INLINE void store_native(float* target, NativeFloats values) {
  *reinterpret_cast<LooseFloats*>(target) = values;
}

ONEGLANCE_INLINE void store_native(double* target, NativeDoubles values) {
  *reinterpret_cast<LooseDoubles*>(target) = values;
}

struct Doubles {
  NativeDoubles part[kDoubleParts];
};

// Applies an operation to each part. Parts are independent, so that a processor can work on
// several at once.
template <typename Operation>
ONEGLANCE_INLINE Doubles each_part(Operation operation) {
  Doubles result;
  for (int i = 0; i < kDoubleParts; ++i) result.part[i] = operation(i);
  return result;
}

ONEGLANCE_INLINE NativeDoubles native_broadcast(double value) { return value - NativeDoubles{}; }

ONEGLANCE_INLINE Doubles broadcast(double value) {
  return each_part([&](int) ONEGLANCE_LAMBDA { return native_broadcast(value); });
}

ONEGLANCE_INLINE Doubles load_doubles(const double* source) {
  return each_part([&](int i) ONEGLANCE_LAMBDA {
    return load_native(source + i * kNativeDoubles);
  });
}

// Sixteen floats, each converted exactly.
ONEGLANCE_INLINE Doubles load_doubles(const float* source) {
  return each_part([&](int i) ONEGLANCE_LAMBDA {
    return __builtin_convertvector(
        *reinterpret_cast<const LooseHalfFloats*>(source + i * kNativeDoubles), NativeDoubles);
  });
}

// The first `count` of sixteen values, the rest `filler`.
template <typename Value>
ONEGLANCE_INLINE Doubles load_doubles(const Value* source, int64_t count, double filler) {
  if (count >= kLanes) return load_doubles(source);
  double values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = i < count ? double{source[i]} : filler;
  return load_doubles(values);
}

ONEGLANCE_INLINE void store(double* target, const Doubles& doubles) {
  for (int i = 0; i < kDoubleParts; ++i) {
    store_native(target + i * kNativeDoubles, doubles.part[i]);
  }
}

ONEGLANCE_INLINE void store_first(double* target, int64_t count, const Doubles& doubles) {
  if (count >= kLanes) return store(target, doubles);
  double values[kLanes];
  store(values, doubles);
  for (int64_t i = 0; i < count; ++i) target[i] = values[i];
}

ONEGLANCE_INLINE Doubles operator+(const Doubles& a, const Doubles& b) {
  return each_part([&](int i) ONEGLANCE_LAMBDA { return a.part[i] + b.part[i]; });
}

ONEGLANCE_INLINE Doubles operator-(const Doubles& a, const Doubles& b) {
  return each_part([&](int i) ONEGLANCE_LAMBDA { return a.part[i] - b.part[i]; });
}

ONEGLANCE_INLINE Doubles operator*(const Doubles& a, const Doubles& b) {
  return each_part([&](int i) ONEGLANCE_LAMBDA { return a.part[i] * b.part[i]; });
}

ONEGLANCE_INLINE Doubles operator/(const Doubles& a, const Doubles& b) {
  return each_part([&](int i) ONEGLANCE_LAMBDA { return a.part[i] / b.part[i]; });
}

// The sum of the lanes by one fixed tree: lane l gets lane l + 8, then l + 4, l + 2, l + 1.
ONEGLANCE_INLINE double sum_of_lanes(const Doubles& doubles) {
  double values[kLanes];
  store(values, doubles);
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) values[i] = values[i] + values[i + width];
  }
  return values[0];
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
