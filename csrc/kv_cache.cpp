#include "kv_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "require.h"

namespace oneglance {
namespace {

// Whole cache lines, so that every head starts on one.
int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

KvCache::KvCache(int num_layers, int num_kv_heads, int head_dim, int page_size, bool is_half)
    : num_layers_(num_layers),
      num_kv_heads_(num_kv_heads),
      head_dim_(head_dim),
      page_size_(page_size),
      is_half_(is_half) {
  require(num_layers >= 1 && num_layers <= 4096, "num_layers must be from 1 to 4096");
  require(num_kv_heads >= 1 && num_kv_heads <= 4096, "num_kv_heads must be from 1 to 4096");
  require(head_dim >= kStripLanes && head_dim % kStripLanes == 0 && head_dim <= 4096,
          "head_dim must be a multiple of 16, at most 4096");
  require(page_size >= 1 && page_size <= 65536, "page_size must be from 1 to 65536");
  const int64_t element = is_half ? sizeof(uint16_t) : sizeof(float);
  const int64_t key_slots = static_cast<int64_t>(strips_for(page_size)) * kStripLanes;
  key_bytes_ = aligned(key_slots * head_dim * element);
  head_bytes_ = key_bytes_ + aligned(static_cast<int64_t>(page_size) * head_dim * element);
  page_bytes_ = head_bytes_ * num_kv_heads * num_layers;
  const int64_t that_fit = static_cast<int64_t>(kSlab) / page_bytes_;
  pages_per_slab_ = static_cast<int>(std::max<int64_t>(1, that_fit));
}

// Memory of a slab is taken when its pages are first written, not before.
void KvCache::add_slab() {
  const std::size_t size = static_cast<std::size_t>(page_bytes_) * pages_per_slab_;
  slabs_.reserve(slabs_.size() + 1);
  slabs_.emplace_back(
      static_cast<std::byte*>(::operator new(size, std::align_val_t{kHugePage})));
#if defined(MADV_HUGEPAGE)
  // A refusal leaves ordinary pages, which work as well.
  (void)::madvise(slabs_.back().get(), size, MADV_HUGEPAGE);
#endif
}

void KvCache::grow(int num_pages) {
  const std::lock_guard<std::mutex> guard(mutex);
  while (this->num_pages() < num_pages) {
    const int in_slab = this->num_pages() % pages_per_slab_;
    if (in_slab == 0) add_slab();
    std::byte* page = slabs_.back().get() + page_bytes_ * in_slab;
    std::memset(page, 0, static_cast<std::size_t>(page_bytes_));
    pages_.push_back(page);
  }
}

void KvCache::check_page(int page) const {
  if (page < 0 || page >= num_pages()) {
    throw std::out_of_range("page " + std::to_string(page) + " does not exist; there are " +
                            std::to_string(num_pages()));
  }
}

void KvCache::copy_page(int source, int target) {
  const std::lock_guard<std::mutex> guard(mutex);
  check_page(source);
  check_page(target);
  if (source == target) return;
  std::memcpy(pages_[target], pages_[source], static_cast<std::size_t>(page_bytes_));
}

KvHead KvCache::head(int layer, int kv_head) const {
  const int64_t offset = (static_cast<int64_t>(layer) * num_kv_heads_ + kv_head) * head_bytes_;
  return {pages_.data(), offset, offset + key_bytes_, page_size_, head_dim_, is_half_};
}

template <typename Element>
void KvCache::gather_head(const KvHead& head, const std::vector<int32_t>& pages,
                          const std::vector<int32_t>& sources,
                          const std::vector<int32_t>& targets) {
  const std::size_t count = sources.size();
  const auto key = [&](int32_t slot) {
    return head.keys<Element>(pages[slot / page_size_]) + head.key_index(slot % page_size_, 0);
  };
  const auto value = [&](int32_t slot, int strip) {
    return head.values<Element>(pages[slot / page_size_]) +
           head.value_index(slot % page_size_, strip);
  };
  std::vector<Element*> from(count), to(count);
  std::transform(sources.begin(), sources.end(), from.begin(), key);
  std::transform(targets.begin(), targets.end(), to.begin(), key);
  std::vector<Element> held(count * kStripLanes);
  // One element of all slots at a time: neighbouring slots share its cache line.
  for (int d = 0; d < head_dim_; ++d) {
    for (std::size_t i = 0; i < count; ++i) held[i] = from[i][d * kStripLanes];
    for (std::size_t i = 0; i < count; ++i) to[i][d * kStripLanes] = held[i];
  }
  for (int strip = 0; strip < head_dim_ / kStripLanes; ++strip) {
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(value(sources[i], strip), kStripLanes, held.data() + i * kStripLanes);
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(held.data() + i * kStripLanes, kStripLanes, value(targets[i], strip));
    }
  }
}

void KvCache::gather(const std::vector<int32_t>& pages, const std::vector<int32_t>& sources,
                     const std::vector<int32_t>& targets) {
  const std::lock_guard<std::mutex> guard(mutex);
  require(sources.size() == targets.size(), "sources and targets must be equally many");
  for (const int32_t page : pages) check_page(page);
  const int64_t num_slots = static_cast<int64_t>(pages.size()) * page_size_;
  for (const auto* slots : {&sources, &targets}) {
    for (const int32_t slot : *slots) {
      if (slot >= 0 && slot < num_slots) continue;
      throw std::out_of_range("slot " + std::to_string(slot) + " does not exist; the pages have " +
                              std::to_string(num_slots));
    }
  }
  for (int layer = 0; layer < num_layers_; ++layer) {
    for (int kv_head = 0; kv_head < num_kv_heads_; ++kv_head) {
      if (is_half_) {
        gather_head<uint16_t>(head(layer, kv_head), pages, sources, targets);
      } else {
        gather_head<float>(head(layer, kv_head), pages, sources, targets);
      }
    }
  }
}

}  // namespace oneglance
