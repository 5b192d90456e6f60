// The pages of keys and values of all layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "attention_arguments.h"

namespace oneglance {

// Which page belongs to whom is not known here; the caller keeps that book.
//
// A page holds `page_size` slots for every layer and kv head, so that growing never moves one.
// The layout inside a page is that of KvHead. Pages are cut from slabs of huge memory pages where
// the system has them: a pass touches so many small ones that finding them costs a tenth or more
// of its attention at 2,000 positions.
class KvCache {
 public:
  // Throws std::invalid_argument where a size is below 1 or head_dim no multiple of 16.
  KvCache(int num_layers, int num_kv_heads, int head_dim, int page_size, bool is_half);

  // Makes pages, filled with zeros, until there are at least `num_pages`.
  void grow(int num_pages);

  // Copies all slots of a page. Throws std::out_of_range for a page that does not exist.
  void copy_page(int source, int target);

  // Moves slots of one sequence, in all layers, as if all were read before any is written.
  // Slot i lies on page pages[i / page_size]. Throws std::out_of_range for pages or slots that
  // do not exist.
  void gather(const std::vector<int32_t>& pages, const std::vector<int32_t>& sources,
              const std::vector<int32_t>& targets);

  // Valid until the cache grows.
  KvHead head(int layer, int kv_head) const;

  void check_page(int page) const;

  int num_layers() const { return num_layers_; }
  int num_kv_heads() const { return num_kv_heads_; }
  int head_dim() const { return head_dim_; }
  int page_size() const { return page_size_; }
  bool is_half() const { return is_half_; }
  int num_pages() const { return static_cast<int>(pages_.size()); }
  int64_t page_bytes() const { return page_bytes_; }

  // Held by whoever uses the pages, so that no other thread makes new ones meanwhile.
  std::mutex mutex;

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kSlab = 8 * kHugePage;
  struct Release {
    void operator()(std::byte* slab) const {
      ::operator delete(slab, std::align_val_t{kHugePage});
    }
  };

  void add_slab();
  template <typename Element>
  void gather_head(const KvHead& head, const std::vector<int32_t>& pages,
                   const std::vector<int32_t>& sources, const std::vector<int32_t>& targets);

  int num_layers_;
  int num_kv_heads_;
  int head_dim_;
  int page_size_;
  bool is_half_;
  int64_t key_bytes_;  // of one head in one page
  int64_t head_bytes_;
  int64_t page_bytes_;
  int pages_per_slab_;
  std::vector<std::unique_ptr<std::byte[], Release>> slabs_;
  std::vector<std::byte*> pages_;
};

}  // namespace oneglance
