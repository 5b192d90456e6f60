// Norm, rotation and activation.
#include "../half.h"
#include "digest.h"
#include "random.h"

namespace oneglance {
namespace {

void digest_norm(const KernelTable& kernels, int size) {
  Random random(5);
  const int rows = 3;
  const int64_t ldx = size + 3;
  const int64_t ldy = size + 1;
  const std::vector<float> x = random.activations(rows * ldx);
  const std::vector<float> weight = random.activations(size);
  std::vector<float> y(static_cast<std::size_t>(rows * ldy), kUntouched);
  kernels.rms_norm(x.data(), ldx, weight.data(), 1e-5f, rows, size, y.data(), ldy);
  Hash hash;
  hash.add(y);
  hash.print("rms_norm size=" + std::to_string(size));
}

void digest_rope(const KernelTable& kernels, int head_dim) {
  Random random(6);
  const int rows = 3;
  const int num_heads = 5;
  const int64_t ld = num_heads * head_dim + 2;
  std::vector<float> heads = random.activations(rows * ld);
  const std::vector<float> cos = random.activations(7 * head_dim / 2);
  const std::vector<float> sin = random.activations(7 * head_dim / 2);
  const std::vector<int32_t> positions = {6, 0, 3};
  kernels.rope(heads.data(), ld, rows, num_heads, head_dim, cos.data(), sin.data(),
               positions.data());
  Hash hash;
  hash.add(heads);
  hash.print("rope head_dim=" + std::to_string(head_dim));
}

// Gates from one end of the exponential's range to the other, and any bits at all.
void digest_swiglu(const KernelTable& kernels, int begin, int end) {
  Random random(7);
  const int rows = 4;
  const int64_t ld = 1100;
  std::vector<float> gate = random.activations(rows * ld);
  const std::vector<float> up = random.activations(rows * ld);
  for (std::size_t i = ld; i < 2 * ld; ++i) gate[i] = 100.0f * random.unit();
  for (std::size_t i = 2 * ld; i < 3 * ld; ++i) {
    gate[i] = float_of(static_cast<uint32_t>(random.next()));
  }
  std::vector<float> y(static_cast<std::size_t>(rows * ld), kUntouched);
  kernels.swiglu(gate.data(), up.data(), ld, rows, begin, end, y.data(), ld);
  Hash hash;
  hash.add(y);
  hash.print("swiglu " + std::to_string(begin) + ".." + std::to_string(end));
}

}  // namespace

void digest_elements(const KernelTable& kernels) {
  for (const int size : {1, 15, 16, 64, 100, 576}) digest_norm(kernels, size);
  for (const int head_dim : {16, 64, 80, 128}) digest_rope(kernels, head_dim);
  digest_swiglu(kernels, 0, 1100);
  digest_swiglu(kernels, 32, 45);
  digest_swiglu(kernels, 64, 96);
}

}  // namespace oneglance
