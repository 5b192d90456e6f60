// Products, embeddings and quantised activations, in every packed form.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "../half.h"
#include "digest.h"
#include "random.h"

namespace oneglance {
namespace {

struct Form {
  const char* name;
  Values values;
  Scales scales;
  int zero_point;
  int activation_planes = 1;
};

// Those that `pack` makes, by the format that it makes them of.
constexpr Form kForms[] = {
    {"q4_0", Values::k4Bit, Scales::kHalf, 8},    {"q4_1", Values::k4Bit, Scales::kHalfMin, 0},
    {"q4_k", Values::k4Bit, Scales::kSuper, 0},   {"q5_0", Values::k5Bit, Scales::kHalf, 16},
    {"q5_1", Values::k5Bit, Scales::kHalfMin, 0}, {"q5_k", Values::k5Bit, Scales::kSuper, 0},
    {"q6_k", Values::k6Bit, Scales::kSuper16, 32}, {"q8_0", Values::k8Bit, Scales::kHalf, 0},
    {"q8_0 in two planes", Values::k8Bit, Scales::kHalf, 0, 2},
};

// Three tiles, the last one not full; groups for one whole run and a part of the next.
constexpr int kOutputs = 75;
constexpr int kInputs = 320;
constexpr int64_t kLdy = kOutputs + 5;

// A matrix whose every byte comes from `byte`, but for scales in half precision, which are small.
class Matrix {
 public:
  template <typename Byte>
  Matrix(const Form& form, Random& random, Byte byte) {
    view_ = {kOutputs,        kInputs,
             form.values,     form.scales,
             form.zero_point, form.activation_planes,
             0,               nullptr,
             nullptr};
    const int num_runs = (view_.num_groups() + kRunGroups - 1) / kRunGroups;
    const int group_bytes = value_bytes(form.values) + scale_bytes(form.scales);
    const int64_t used = num_runs * run_bytes(form.scales) + view_.num_groups() * group_bytes;
    view_.tile_bytes = (used + 63) / 64 * 64;
    const auto size = static_cast<std::size_t>(view_.num_bytes());
    auto* data = static_cast<uint8_t*>(std::aligned_alloc(64, size));
    view_.owner = std::shared_ptr<const void>(data, [](void* p) { std::free(p); });
    view_.data = data;
    std::memset(data, 0, size);
    for (int tile = 0; tile < view_.num_tiles(); ++tile, data += view_.tile_bytes) {
      fill_tile(data, random, byte);
    }
  }

  const PackedMatrix& view() const { return view_; }

 private:
  static void fill_halves(uint8_t*& to, int bytes, Random& random) {
    for (; bytes > 0; bytes -= 2, to += 2) {
      const uint16_t half = float_to_half(random.unit() * 0.125f);
      std::memcpy(to, &half, sizeof half);
    }
  }

  template <typename Byte>
  void fill_tile(uint8_t* to, Random& random, Byte byte) {
    const bool has_small_scales = run_bytes(view_.scales) > 0;
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (g % kRunGroups == 0) fill_halves(to, run_bytes(view_.scales), random);
      const int rest = has_small_scales ? scale_bytes(view_.scales) : 0;
      for (int b = 0; b < value_bytes(view_.values) + rest; ++b) *to++ = byte();
      if (!has_small_scales) fill_halves(to, scale_bytes(view_.scales), random);
    }
  }

  PackedMatrix view_;
};

struct Rows {
  Rows(int rows, int inputs, int num_planes)
      : planes(num_planes),
        values(static_cast<std::size_t>(rows) * num_planes * inputs),
        scales(values.size() / kGroup),
        sums(values.size() / kGroup) {}

  void sum_up() {
    for (std::size_t i = 0; i < values.size(); ++i) sums[i / kGroup] += values[i];
  }
  QuantizedRows view() { return {values.data(), scales.data(), sums.data(), planes}; }

  int planes;
  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<int32_t> sums;
};

Rows random_rows(int rows, int planes, Random& random) {
  Rows x(rows, kInputs, planes);
  for (int8_t& value : x.values) value = static_cast<int8_t>(random.below(255) - 127);
  for (float& scale : x.scales) scale = random.unit();
  x.sum_up();
  return x;
}

void digest_product(const KernelTable& kernels, const PackedMatrix& w, Rows& x, int rows,
                    const std::string& name) {
  std::vector<float> y(static_cast<std::size_t>(rows * kLdy), kUntouched);
  kernels.matmul(w, x.view(), rows, y.data(), kLdy, 0, w.num_tiles());
  Hash hash;
  hash.add(y);
  std::fill(y.begin(), y.end(), kUntouched);
  kernels.matmul(w, x.view(), rows, y.data(), kLdy, 1, 2);
  hash.add(y);
  hash.print("matmul " + name + " rows=" + std::to_string(rows));
}

void digest_products(const KernelTable& kernels, const Form& form) {
  Random random(1);
  const Matrix w(form, random, [&] { return static_cast<uint8_t>(random.next() >> 32); });
  std::vector<int> counts = {24, 33, 48, 64};
  for (int rows = 1; rows <= 17; ++rows) counts.push_back(rows);
  for (const int rows : counts) {
    Rows x = random_rows(rows, form.activation_planes, random);
    digest_product(kernels, w.view(), x, rows, form.name);
  }
  // Rows with more planes than this matrix takes, as another one of the layer takes them.
  if (form.activation_planes == kMaxPlanes) return;
  Rows x = random_rows(5, kMaxPlanes, random);
  digest_product(kernels, w.view(), x, 5, std::string(form.name) + " of two planes the first");
}

// Weights and activations at the ends of their ranges, where sums would saturate or wrap.
void digest_extremes(const KernelTable& kernels, const Form& form) {
  for (const int byte : {0x00, 0x7f, 0x80, 0xff}) {
    Random random(2);
    const Matrix w(form, random, [&] { return static_cast<uint8_t>(byte); });
    for (const int signs : {1, -1, 0}) {
      const int rows = 9;
      Rows x(rows, kInputs, form.activation_planes);
      for (int8_t& value : x.values) {
        const int sign = signs == 0 ? 2 * random.below(2) - 1 : signs;
        value = static_cast<int8_t>(127 * sign);
      }
      for (float& scale : x.scales) scale = 1.0f;
      x.sum_up();
      digest_product(kernels, w.view(), x, rows,
                     std::string(form.name) + " bytes=" + std::to_string(byte) +
                         " signs=" + std::to_string(signs));
    }
  }
}

void digest_embedding(const KernelTable& kernels, const Form& form) {
  Random random(3);
  const Matrix w(form, random, [&] { return static_cast<uint8_t>(random.next() >> 32); });
  std::vector<int32_t> tokens(kOutputs);
  for (int32_t& token : tokens) token = random.below(kOutputs);
  const int64_t ldy = kInputs + 3;
  std::vector<float> y(static_cast<std::size_t>(kOutputs * ldy), kUntouched);
  kernels.embed(w.view(), tokens.data(), kOutputs, y.data(), ldy);
  Hash hash;
  hash.add(y);
  hash.print(std::string("embed ") + form.name);
}

// Rows of every kind: usual ones, zeros, too small to be scaled, any bits at all.
void digest_quantization(const KernelTable& kernels, int planes) {
  Random random(4);
  const int rows = 12;
  const int64_t ldx = kInputs + 7;
  std::vector<float> x = random.activations(rows * ldx);
  for (std::size_t i = 0; i < x.size(); ++i) {
    switch (static_cast<int>(i / ldx) % 6) {
      case 1: x[i] = i / kGroup % 2 == 0 ? 0.0f : x[i]; break;
      case 2: x[i] = x[i] * 0x1p-125f; break;
      case 3: x[i] = x[i] * 0x1p-140f; break;
      case 4: x[i] = float_of(static_cast<uint32_t>(random.next())); break;
      case 5: x[i] = static_cast<float>(random.below(509) - 254) * 0.5f; break;  // ties
      default: break;
    }
  }
  Rows out(rows, kInputs, planes);
  const int groups = kInputs / kGroup;
  kernels.quantize_rows(x.data(), ldx, rows, kInputs, out.view(), 3, groups);
  kernels.quantize_rows(x.data(), ldx, rows, kInputs, out.view(), 0, 2);
  Hash hash;
  hash.add(out.values);
  hash.add(out.scales);
  hash.add(out.sums);
  hash.print("quantize_rows planes=" + std::to_string(planes));
}

}  // namespace

void digest_matrices(const KernelTable& kernels) {
  for (int planes = 1; planes <= kMaxPlanes; ++planes) digest_quantization(kernels, planes);
  for (const Form& form : kForms) {
    digest_products(kernels, form);
    digest_extremes(kernels, form);
    digest_embedding(kernels, form);
  }
}

}  // namespace oneglance
