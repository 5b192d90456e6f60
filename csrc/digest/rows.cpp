// What sampling asks of rows of logits: the largest, weights, noise.
#include <limits>

#include "../row_kernels.h"
#include "digest.h"
#include "random.h"

namespace oneglance {
namespace {

constexpr int64_t kSizes[] = {1, 15, 16, 17, 255, 257, 1000, 4099};

// Logits with ties, some of them impossible.
template <typename Value>
std::vector<Value> random_logits(int64_t size, Random& random) {
  std::vector<Value> values(static_cast<std::size_t>(size));
  for (Value& value : values) {
    const bool is_coarse = random.below(4) == 0;
    value = is_coarse ? static_cast<Value>(random.below(9) - 4)
                      : static_cast<Value>(random.unit()) * 20;
    if (random.below(50) == 0) value = -std::numeric_limits<Value>::infinity();
  }
  values[0] = 0;  // so that one is possible
  return values;
}

template <typename Value>
void digest_choices(const RowKernels<Value>& kernels, const std::string& name, int64_t size) {
  Random random(11);
  std::vector<Value> values = random_logits<Value>(size, random);
  const int64_t best = kernels.argmax(values.data(), size);
  std::vector<int64_t> indices(static_cast<std::size_t>(size), -1);
  const int64_t begin = size / 5;
  indices.push_back(best);
  indices.push_back(kernels.collect(values.data(), begin, size, Value{2}, indices.data()));
  values[static_cast<std::size_t>(random.below(static_cast<int>(size)))] =
      std::numeric_limits<Value>::quiet_NaN();
  indices.push_back(kernels.argmax(values.data(), size));
  Hash hash;
  hash.add(indices);
  hash.print("choices " + name + " size=" + std::to_string(size));
}

template <typename Value>
void digest_weights(const RowKernels<Value>& kernels, const std::string& name, int64_t size) {
  Random random(12);
  const std::vector<Value> values = random_logits<Value>(size, random);
  const double best = values[static_cast<std::size_t>(kernels.argmax(values.data(), size))];
  const ScaledRow<Value> row = {values.data(), size, best, 0.75};
  const auto num_blocks = static_cast<std::size_t>((size + kWeightBlock - 1) / kWeightBlock);
  std::vector<double> sums(num_blocks);
  std::vector<double> weights(static_cast<std::size_t>(size));
  sums.push_back(kernels.sum_weights(row, sums.data()));
  sums.push_back(kernels.sum_weights(row, nullptr));
  kernels.weights(row, size / 7, size, weights.data());
  Hash hash;
  hash.add(sums);
  hash.add(weights);
  hash.print("weights " + name + " size=" + std::to_string(size));
}

template <typename Value>
void digest_best(const RowKernels<Value>& kernels, const std::string& name, int64_t size,
                 bool has_ids) {
  Random random(15);
  const std::vector<Value> values = random_logits<Value>(size, random);
  std::vector<int64_t> ids;
  for (int64_t id = 5; ids.size() < values.size(); id += 1 + random.below(3)) ids.push_back(id);
  std::vector<double> scores(8);
  std::vector<int64_t> indices(8);
  Podium podium = {scores.data(), indices.data(), 8, 0};
  const ScaledRow<Value> row = {values.data(), size, 4.0, 0.75};
  kernels.best_with_noise(row, has_ids ? ids.data() : nullptr, {3, 1, 77}, podium);
  indices.push_back(podium.size);
  Hash hash;
  hash.add(scores);
  hash.add(indices);
  hash.print("best_with_noise " + name + (has_ids ? " ids" : "") +
             " size=" + std::to_string(size));
}

template <typename Value>
void digest_row_kernels(const RowKernels<Value>& kernels, const std::string& name) {
  for (const int64_t size : kSizes) {
    digest_choices(kernels, name, size);
    digest_weights(kernels, name, size);
    digest_best(kernels, name, size, false);
    digest_best(kernels, name, size, true);
  }
}

void digest_doubles(const KernelTable& kernels) {
  Random random(13);
  std::vector<double> x;
  for (int i = 0; i < 2003; ++i) x.push_back(static_cast<double>(random.unit()) * 750.0 - 40.0);
  std::vector<double> results(x.size());
  kernels.exp_doubles(x.data(), static_cast<int64_t>(x.size()), results.data());
  for (int64_t size : {1, 16, 33, 2003}) results.push_back(kernels.sum_doubles(x.data(), size));
  for (const double value : x) results.push_back(kernels.log_double(1e-3 + value * value));
  Hash hash;
  hash.add(results);
  hash.print("doubles");
}

void digest_gumbel(const KernelTable& kernels) {
  Random random(14);
  std::vector<int64_t> ids;
  for (int64_t id = 0; ids.size() < 1001; id += random.below(4)) ids.push_back(id);
  std::vector<double> noise(ids.size());
  const uint64_t seed = random.next();
  kernels.gumbel({seed, 2, 12345}, ids.data(), static_cast<int64_t>(ids.size()), noise.data());
  Hash hash;
  hash.add(noise);
  hash.print("gumbel");
}

}  // namespace

void digest_rows(const KernelTable& kernels) {
  digest_doubles(kernels);
  digest_gumbel(kernels);
  digest_row_kernels(kernels.float_rows, "float");
  digest_row_kernels(kernels.double_rows, "double");
}

}  // namespace oneglance
