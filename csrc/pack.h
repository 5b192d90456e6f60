// Packs the weights of a checkpoint into the form that the kernels read.
#pragma once

#include <cstddef>
#include <string>

#include "packed.h"

namespace oneglance {

// Why a matrix of this type and width cannot be packed; empty if it can.
std::string why_unpackable(const std::string& quantization, int inputs);

// What becomes of F32, F16 and BF16 weights.
enum class FloatForm {
  k8Bit,  // symmetric per group of 32 inputs: scale = amax / 127 rounded to half precision, then
          // q = w / scale rounded to nearest even, within -127..127 (all 0 where the scale is 0)
  kBf16,  // rounded to nearest even where the file has more
  kF32,   // exact
};

// From the words of EngineConfig.weights: auto, bf16, f32. Throws std::invalid_argument otherwise.
FloatForm float_form(const std::string& weights);

// Packs a matrix from its bytes in the file, in row order. Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K,
// Q5_K and Q6_K lose nothing, whatever is said of floats.
//
// Products with the matrix take activations in so many planes: 1, or 2 where the form is that of
// 8-bit values with one scale. Of weights that stay floats that is no question.
//
// Throws std::invalid_argument: planes that the form does not have, a type or width that cannot be packed, another number of bytes
// than the shape asks for, a weight that is not finite in its form or, quantised, beyond half
// precision's scale.
PackedMatrix pack(const uint8_t* data, size_t num_bytes, const std::string& quantization,
                  FloatForm floats, int activation_planes, int outputs, int inputs,
                  int num_threads);

}  // namespace oneglance
