// The cache and the attention of trees over it.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "../attention_arguments.h"
#include "../half.h"
#include "digest.h"
#include "random.h"

namespace oneglance {
namespace {

// One head's pages, which a sequence uses in an order that is not theirs.
class Cache {
 public:
  Cache(int head_dim, int page_size, int num_slots, bool is_half) {
    const std::size_t element = is_half ? sizeof(uint16_t) : sizeof(float);
    const std::size_t keys = element * strips_for(page_size) * kStripLanes * head_dim;
    const std::size_t values = element * page_size * head_dim;
    const int num_pages = (num_slots + page_size - 1) / page_size;
    words_.resize(num_pages, std::vector<uint64_t>((keys + values + 7) / 8));
    for (auto& page : words_) pages_.push_back(reinterpret_cast<std::byte*>(page.data()));
    for (int i = 0; i < num_pages; ++i) order_.push_back(num_pages - 1 - i);
    head_ = {pages_.data(), 0, static_cast<int64_t>(keys), page_size, head_dim, is_half};
  }

  const KvHead& head() const { return head_; }
  const int32_t* order() const { return order_.data(); }
  void add_to(Hash& hash) const {
    for (const auto& page : words_) hash.add(page);
  }

 private:
  std::vector<std::vector<uint64_t>> words_;
  std::vector<std::byte*> pages_;
  std::vector<int32_t> order_;
  KvHead head_;
};

void store_rows(const KernelTable& kernels, const Cache& cache, int first_slot, int rows,
                const std::vector<float>& keys, const std::vector<float>& values, int64_t ld) {
  kernels.store_kv(
      {cache.head(), cache.order(), first_slot, rows, keys.data(), values.data(), ld});
}

// Any bits at all, so that every case of rounding to half precision is met.
void digest_store(const KernelTable& kernels, int head_dim, int page_size, bool is_half) {
  Random random(8);
  const int rows = 150;
  const int64_t ld = head_dim + 4;
  std::vector<float> keys(static_cast<std::size_t>(rows * ld));
  std::vector<float> values(keys.size());
  for (float& key : keys) key = float_of(static_cast<uint32_t>(random.next()));
  // Halves themselves, the numbers between two of them, and their neighbours.
  for (float& value : values) {
    const uint32_t half = bits_of(half_to_float(static_cast<uint16_t>(random.next() >> 48)));
    const uint32_t middle = random.below(2) == 0 ? 0u : 0x1000u;
    value = float_of(half + middle + static_cast<uint32_t>(random.below(3)) - 1u);
  }
  const Cache cache(head_dim, page_size, rows + 3, is_half);
  store_rows(kernels, cache, 3, rows, keys, values, ld);
  Hash hash;
  cache.add_to(hash);
  hash.print("store_kv head_dim=" + std::to_string(head_dim) + " page=" +
             std::to_string(page_size) + (is_half ? " half" : " float"));
}

struct Shape {
  int head_dim;
  int page_size;
  int prefix;
  int rows;
  int group;
  bool is_half;
  bool is_chain;
};

// What each row sees: the prefix and its ancestors, as runs of slots.
class Tree {
 public:
  Tree(const Shape& shape, Random& random) {
    std::vector<int> parents;
    starts_.push_back(0);
    for (int row = 0; row < shape.rows; ++row) {
      // -1: hangs off the prefix; without one all hang off the first row.
      const int lowest = shape.prefix > 0 ? -1 : 0;
      const bool is_first = row == 0;
      parents.push_back(is_first || shape.is_chain ? row - 1
                                                   : lowest + random.below(row - lowest));
      add_row(shape.prefix, row, parents);
    }
  }

  const int32_t* starts() const { return starts_.data(); }
  const SlotRun* runs() const { return runs_.data(); }

 private:
  void add_row(int prefix, int row, const std::vector<int>& parents) {
    std::vector<int> slots;
    for (int at = row; at >= 0; at = parents[at]) slots.push_back(prefix + at);
    std::reverse(slots.begin(), slots.end());
    SlotRun run = {0, prefix};
    for (const int slot : slots) {
      if (slot != run.slot + run.length) {
        runs_.push_back(run);
        run = {slot, 0};
      }
      ++run.length;
    }
    runs_.push_back(run);
    starts_.push_back(static_cast<int32_t>(runs_.size()));
  }

  std::vector<int32_t> starts_;
  std::vector<SlotRun> runs_;
};

void digest_attend(const KernelTable& kernels, const Shape& shape) {
  Random random(9);
  const int num_slots = shape.prefix + shape.rows;
  const int num_queries = shape.rows * shape.group;
  const int64_t head_dim = shape.head_dim;
  const Cache cache(shape.head_dim, shape.page_size, num_slots, shape.is_half);
  const std::vector<float> keys = random.activations(num_slots * head_dim);
  const std::vector<float> values = random.activations(num_slots * head_dim);
  store_rows(kernels, cache, 0, num_slots, keys, values, head_dim);
  const Tree tree(shape, random);
  const int64_t ld = shape.group * head_dim + 6;
  const std::vector<float> queries = random.activations(shape.rows * ld);
  std::vector<float> mixed(static_cast<std::size_t>(shape.rows * ld), kUntouched);
  const AttendScratch layout(shape.head_dim, num_slots);
  std::vector<float> scratch(static_cast<std::size_t>(layout.size), kUntouched);
  const int middle = num_queries / 3;
  for (const auto& [begin, end] : {std::pair{0, middle}, std::pair{middle, num_queries}}) {
    kernels.attend({cache.head(), cache.order(), tree.starts(), tree.runs(), shape.group, begin,
                    end, 0.125f, queries.data(), mixed.data(), ld, ld, layout, scratch.data()});
  }
  Hash hash;
  hash.add(mixed);
  hash.print("attend head_dim=" + std::to_string(shape.head_dim) +
             " page=" + std::to_string(shape.page_size) +
             " prefix=" + std::to_string(shape.prefix) + " rows=" + std::to_string(shape.rows) +
             " group=" + std::to_string(shape.group) + (shape.is_half ? " half" : " float") +
             (shape.is_chain ? " chain" : " tree"));
}

}  // namespace

void digest_attention(const KernelTable& kernels) {
  for (const bool is_half : {true, false}) {
    digest_store(kernels, 64, 64, is_half);
    digest_store(kernels, 80, 20, is_half);
    digest_attend(kernels, {64, 64, 0, 9, 3, is_half, true});
    digest_attend(kernels, {64, 64, 0, 9, 3, is_half, false});
    digest_attend(kernels, {64, 16, 37, 1, 3, is_half, true});
    digest_attend(kernels, {64, 64, 200, 1, 1, is_half, true});
    digest_attend(kernels, {80, 20, 37, 17, 1, is_half, false});
    digest_attend(kernels, {16, 1, 5, 12, 2, is_half, false});
    digest_attend(kernels, {128, 64, 130, 13, 7, is_half, false});
    digest_attend(kernels, {64, 64, 500, 5, 6, is_half, false});
  }
}

}  // namespace oneglance
