// Numpy arrays as arguments and results of the layer's bindings.
//
// Every size and index is checked by the bindings or in what they call, so that no call can read
// or write outside its arrays: std::invalid_argument becomes ValueError, std::out_of_range
// IndexError.
#pragma once

#include <nanobind/ndarray.h>

#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"
#include "require.h"
#include "workspace.h"

namespace oneglance {

using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using DoublesOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using IdsOut = nb::ndarray<int64_t, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;
using NewFloats = nb::ndarray<nb::numpy, float>;

constexpr int64_t kMaxCount = std::numeric_limits<int>::max();

// Throws unless the array has this shape; -1 stands for any length.
template <typename Array>
void require_shape(const Array& array, std::initializer_list<int64_t> shape, const char* name) {
  require(array.ndim() == shape.size(), std::string(name) + " must have " +
                                            std::to_string(shape.size()) + " dimensions, not " +
                                            std::to_string(array.ndim()));
  std::size_t axis = 0;
  for (const int64_t wanted : shape) {
    const auto length = static_cast<int64_t>(array.shape(axis));
    require(length <= kMaxCount, std::string(name) + " is too long");
    require(wanted < 0 || length == wanted,
            std::string(name) + " has length " + std::to_string(length) + " instead of " +
                std::to_string(wanted) + " along axis " + std::to_string(axis));
    ++axis;
  }
}

template <typename Array>
int length_of(const Array& array, std::size_t axis) {
  return static_cast<int>(array.shape(axis));
}

template <typename Item>
std::vector<Item> to_vector(const nb::ndarray<const Item, nb::c_contig, nb::device::cpu>& array,
                            const char* name) {
  require_shape(array, {-1}, name);
  return std::vector<Item>(array.data(), array.data() + array.size());
}

inline std::vector<float> to_vector(const std::optional<Floats>& array, const char* name) {
  return array ? to_vector<float>(*array, name) : std::vector<float>();
}

// A new array of the same shape; its elements are not yet set.
inline NewFloats empty(std::initializer_list<std::size_t> shape) {
  std::size_t size = 1;
  for (const std::size_t length : shape) size *= length;
  auto* data = new float[size];
  const nb::capsule owner(data, [](void* array) noexcept { delete[] static_cast<float*>(array); });
  return NewFloats(data, shape, owner);
}

inline RopeTables rope_tables(const Floats& cos, const Floats& sin) {
  require_shape(cos, {-1, -1}, "cos");
  require_shape(sin, {length_of(cos, 0), length_of(cos, 1)}, "sin");
  return {{cos.data(), cos.data() + cos.size()},
          {sin.data(), sin.data() + sin.size()},
          length_of(cos, 0),
          length_of(cos, 1)};
}

// The kernels one by one, see bind_kernels.cpp.
void bind_kernels(nb::module_& module);

}  // namespace oneglance
