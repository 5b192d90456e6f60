// What the blocks of a layer have in common: how threads share work, and steps of both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernel_table.h"
#include "packed.h"
#include "thread_pool.h"

namespace oneglance {

inline QuantizedRows from_row(const QuantizedRows& rows, int64_t row, int64_t inputs) {
  const int64_t groups = row * rows.planes * (inputs / kGroup);
  return {rows.values + groups * kGroup, rows.scales + groups, rows.sums + groups, rows.planes};
}

// Where the k-th of `count` items of equal cost begins for a thread: items whose start lies below
// `limit` belong to the threads before.
inline int items_below(int64_t limit, int64_t offset, int64_t cost, int count) {
  const int64_t items = (limit - offset + cost - 1) / cost;
  return static_cast<int>(std::clamp<int64_t>(items, 0, count));
}

// A thread of a call, and its share of work whose items differ in cost.
struct Worker {
  int index;
  int count;

  Range part(int size) const { return part_of(size, index, count); }
  // Costs from the first to the second of these, out of `total`, fall to this thread.
  int64_t low(int64_t total) const { return total * index / count; }
  int64_t high(int64_t total) const { return total * (index + 1) / count; }
};

// In how many planes these matrices want activations quantised, each taking what it wants of them;
// none where all take floats.
inline int most_planes(std::initializer_list<const PackedMatrix*> matrices) {
  int planes = 0;
  for (const PackedMatrix* matrix : matrices) planes = std::max(planes, matrix->activation_planes);
  return planes;
}

// y = matrix(x) for some tiles of outputs, from whichever kind of activations the matrix takes.
inline void multiply(const KernelTable& kernels, const PackedMatrix& matrix, const Activations& x,
                     int rows, float* y, int64_t ldy, Range tiles) {
  if (tiles.begin == tiles.end) return;
  if (matrix.has_floats()) {
    kernels.matmul_floats(matrix, x.floats, matrix.inputs, rows, y, ldy, tiles.begin, tiles.end);
  } else {
    kernels.matmul(matrix, x.quantized, rows, y, ldy, tiles.begin, tiles.end);
  }
}

// Normalises this thread's share of rows of `size` into `normed`, and quantises them into `out`
// unless that is empty; row i of the output is row rows[i] of the stream, or row i where `rows` is
// null. Without a weight rows are taken as they are.
void norm_rows(const KernelTable& kernels, const float* stream, const int32_t* rows, int num_rows,
               const std::vector<float>& weight, float eps, int size, float* normed,
               QuantizedRows out, Worker worker);

// stream += matrix(x) for this thread's share of outputs.
void add_product(const KernelTable& kernels, const PackedMatrix& matrix, const Activations& x,
                 int rows, float* product, float* stream, Worker worker);

}  // namespace oneglance
