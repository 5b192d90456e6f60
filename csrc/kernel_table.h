// The kernels of one instruction set, as plain function pointers.
//
// Every kernel is compiled once per instruction set from the same source (csrc/kernels/) and gives
// the same bits in each: no fused multiply-add that rounds, one fixed order for
// every sum.
#pragma once

#include <cstdint>

#include "packed.h"
#include "row_kernels.h"

namespace oneglance {

struct KvStoreArguments;
struct AttendArguments;

struct KernelTable {
  const char* name;

  // Quantises groups [group_begin, group_end) of every row to int8 with one scale per 32 inputs, in
  // as many planes as `out` has.
  void (*quantize_rows)(const float* x, int64_t ldx, int rows, int inputs, QuantizedRows out,
                        int group_begin, int group_end);
  // y[r][n] for the outputs of tiles [tile_begin, tile_end) of integer weights; takes as many planes
  // as the matrix wants, which x must have; writes real outputs only.
  void (*matmul)(const PackedMatrix& w, const QuantizedRows& x, int rows, float* y, int64_t ldy,
                 int tile_begin, int tile_end);
  // The same of weights that are floats.
  void (*matmul_floats)(const PackedMatrix& w, const float* x, int64_t ldx, int rows, float* y,
                        int64_t ldy, int tile_begin, int tile_end);
  // Dequantised rows of the (tied) embedding.
  void (*embed)(const PackedMatrix& w, const int32_t* tokens, int rows, float* y, int64_t ldy);

  void (*rms_norm)(const float* x, int64_t ldx, const float* weight, float eps, int rows, int size,
                   float* y, int64_t ldy);
  // Rotates pairs (i, i + head_dim / 2) in place; tables are [context][head_dim / 2].
  void (*rope)(float* heads, int64_t ld, int rows, int num_heads, int head_dim, const float* cos,
               const float* sin, const int32_t* positions);
  void (*swiglu)(const float* gate, const float* up, int64_t ld, int rows, int begin, int end,
                 float* y, int64_t ldy);
  void (*store_kv)(const KvStoreArguments& arguments);
  void (*attend)(const AttendArguments& arguments);

  RowKernels<float> float_rows;
  RowKernels<double> double_rows;
  // About the sum of e^((value - best) * scale): all in float, but that the sums of blocks are added
  // in double. No value may be NaN.
  double (*rough_sum)(const float* values, int64_t size, float best, float scale);
  // Elementwise e^x and the sum of x in 16 partial sums; y may be x.
  void (*exp_doubles)(const double* x, int64_t size, double* y);
  double (*sum_doubles)(const double* x, int64_t size);
  double (*log_double)(double x);
  // The Gumbel noise of each token id.
  void (*gumbel)(const NoiseKey& key, const int64_t* ids, int64_t size, double* noise);
};

}  // namespace oneglance
