// Products with weights that are kept as floats.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "../half.h"
#include "digest.h"
#include "random.h"

namespace oneglance {
namespace {

constexpr int kOutputs = 75;
constexpr int kInputs = 96;
constexpr int64_t kLdy = kOutputs + 5;

// Weights are consecutive elements of their type: the upper halves of floats, or floats.
PackedMatrix random_matrix(Values values, Random& random) {
  PackedMatrix w = {kOutputs, kInputs, values, Scales::kNone, 0, 0, 0, nullptr, nullptr};
  w.tile_bytes = int64_t{w.num_groups()} * value_bytes(values);
  auto* data = static_cast<uint8_t*>(
      std::aligned_alloc(64, static_cast<std::size_t>(w.num_bytes())));
  w.owner = std::shared_ptr<const void>(data, [](void* p) { std::free(p); });
  w.data = data;
  for (uint8_t* to = data; to < data + w.num_bytes();) {
    const uint32_t bits = bits_of(random.activation());
    const uint16_t upper = static_cast<uint16_t>(bits >> 16);
    const bool is_half = values == Values::kBf16;
    std::memcpy(to, is_half ? static_cast<const void*>(&upper) : &bits, is_half ? 2 : 4);
    to += is_half ? 2 : 4;
  }
  return w;
}

void digest_product(const KernelTable& kernels, const PackedMatrix& w, int rows, Random& random,
                    const std::string& name) {
  const int64_t ldx = kInputs + 3;
  const std::vector<float> x = random.activations(rows * ldx);
  std::vector<float> y(static_cast<std::size_t>(rows * kLdy), kUntouched);
  kernels.matmul_floats(w, x.data(), ldx, rows, y.data(), kLdy, 0, w.num_tiles());
  Hash hash;
  hash.add(y);
  std::fill(y.begin(), y.end(), kUntouched);
  kernels.matmul_floats(w, x.data(), ldx, rows, y.data(), kLdy, 1, 2);
  hash.add(y);
  hash.print("matmul_floats " + name + " rows=" + std::to_string(rows));
}

}  // namespace

void digest_float_matrices(const KernelTable& kernels) {
  for (const Values values : {Values::kBf16, Values::kF32}) {
    const std::string name = values == Values::kBf16 ? "bf16" : "f32";
    Random random(10);
    const PackedMatrix w = random_matrix(values, random);
    for (const int rows : {1, 2, 3, 4, 5, 7, 8, 16, 17, 49, 64}) {
      digest_product(kernels, w, rows, random, name);
    }
    const std::vector<int32_t> tokens = {0, 74, 33, 1};
    std::vector<float> y(tokens.size() * kInputs, kUntouched);
    kernels.embed(w, tokens.data(), static_cast<int>(tokens.size()), y.data(), kInputs);
    Hash hash;
    hash.add(y);
    hash.print("embed " + name);
  }
}

}  // namespace oneglance
