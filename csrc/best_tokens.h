// The best of many logits, kept while they come by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "packed.h"

namespace oneglance {

struct ScoredToken {
  float logit;
  int32_t id;
};

// A total order: by logit, equal ones by id, the lowest first. A NaN comes before every number, as
// it does for numpy's argmax, so that a broken row is seen in its best token.
inline bool ranks_before(const ScoredToken& one, const ScoredToken& other) {
  const bool is_nan = one.logit != one.logit;
  const bool is_other_nan = other.logit != other.logit;
  if (is_nan != is_other_nan) return is_nan;
  if (one.logit > other.logit) return true;
  if (one.logit < other.logit) return false;
  return one.id < other.id;
}

// Up to `capacity` (at least 1) best tokens of those offered, in a heap whose front is the worst.
class BestTokens {
 public:
  explicit BestTokens(int capacity) : capacity_(static_cast<std::size_t>(capacity)) {}

  // Offers tokens first_id, first_id + 1, ..., which come after all that were offered before.
  void offer(const float* logits, int count, int first_id) {
    for (int first = 0; first < count; first += kTile) {
      const int end = std::min(first + kTile, count);
      if (is_full() && !has_candidate(logits + first, end - first)) continue;
      for (int i = first; i < end; ++i) offer({logits[i], first_id + i});
    }
  }

  void offer(const BestTokens& others) {
    for (const ScoredToken& token : others.heap_) offer(token);
  }

  // Writes the tokens, best first; as many as the capacity must have been offered.
  void write(int64_t* ids, float* logits) {
    std::sort(heap_.begin(), heap_.end(), ranks_before);
    for (const ScoredToken& token : heap_) {
      *ids++ = token.id;
      *logits++ = token.logit;
    }
  }

 private:
  bool is_full() const { return heap_.size() == capacity_; }

  // Whether one of these may be better than the worst that is kept: without branches, as almost
  // never one is.
  bool has_candidate(const float* logits, int count) const {
    const float worst = heap_.front().logit;
    int is_any = 0;
    for (int i = 0; i < count; ++i) is_any |= !(logits[i] <= worst);
    return is_any != 0;
  }

  void offer(const ScoredToken& token) {
    if (is_full()) {
      if (!ranks_before(token, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), ranks_before);
      heap_.pop_back();
    }
    heap_.push_back(token);
    std::push_heap(heap_.begin(), heap_.end(), ranks_before);
  }

  std::size_t capacity_;
  std::vector<ScoredToken> heap_;
};

}  // namespace oneglance
