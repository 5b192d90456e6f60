// Attention of trees of rows over a paged cache (arXiv:1706.03762, Eq. 1).
//
// For one query and the positions p that its row sees, in ascending order:
//   s_p = sum over d ascending of q[d] k[p][d], q being scaled beforehand
//   e_p = exp(s_p - max s)
//   out[d] = (sum over p ascending of e_p v[p][d]) / sum e_p
// where sum e_p has sixteen partial sums, e_p in partial p % 16. Each of these is a chain of its
// own, so nothing depends on the other queries, on the pages or on where the prefix ends.
//
// Both products are one kernel: sixteen outputs (positions of keys, elements of values) are
// computed side by side, several queries at a time so that a loaded strip serves them all.
#pragma once

#include "../attention_arguments.h"
#include "exp.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

static_assert(kLanes == kStripLanes, "a strip is what one step computes");

// Queries whose sums stay in registers, beside a strip, a factor and a product.
#if defined(ONEGLANCE_HAS_AVX512) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif
constexpr int kQueriesThatFit = (kRegisters - kParts - 2) / kParts;
constexpr int kMaxQueries = kQueriesThatFit < 6 ? kQueriesThatFit : 6;

// sums[q][l] (+)= sum over i ascending of factors[q][i] * strip[i][l]. Never inlined, so that the
// registers are all its own.
template <int kQueries, bool kFromZero, typename Element>
__attribute__((noinline)) void accumulate(const float* factors, int64_t ld_factors,
                                          const Element* strip, int count, float* sums,
                                          int64_t ld_sums) {
  Lanes totals[kQueries];
  for (int q = 0; q < kQueries; ++q) {
    totals[q] = kFromZero ? broadcast(0.0f) : load(sums + q * ld_sums);
  }
  for (int i = 0; i < count; ++i) {
    const Lanes row = load(strip + static_cast<int64_t>(i) * kLanes);
    for (int q = 0; q < kQueries; ++q) {
      totals[q] = totals[q] + broadcast(factors[q * ld_factors + i]) * row;
    }
  }
  for (int q = 0; q < kQueries; ++q) store(sums + q * ld_sums, totals[q]);
}

// The same for the last queries of a tile, fewer than kMaxQueries.
template <int kQueries, bool kFromZero, typename Element>
inline void accumulate_rest(int queries, const float* factors, int64_t ld_factors,
                            const Element* strip, int count, float* sums, int64_t ld_sums) {
  if constexpr (kQueries > 0) {
    if (queries == kQueries) {
      accumulate<kQueries, kFromZero>(factors, ld_factors, strip, count, sums, ld_sums);
    } else {
      accumulate_rest<kQueries - 1, kFromZero>(queries, factors, ld_factors, strip, count, sums,
                                               ld_sums);
    }
  }
}

// The same for any number of queries. `converted` has room for the strip as floats.
template <bool kFromZero, typename Element>
inline void accumulate_all(int queries, const float* factors, int64_t ld_factors,
                           const Element* strip, int count, float* sums, int64_t ld_sums,
                           float* converted) {
  if constexpr (sizeof(Element) == sizeof(uint16_t)) {
    // Halves that serve more than one block of queries are converted once.
    if (queries > kMaxQueries) {
      for (int i = 0; i < count * kLanes; i += kLanes) store(converted + i, load(strip + i));
      accumulate_all<kFromZero, float>(queries, factors, ld_factors, converted, count, sums,
                                       ld_sums, nullptr);
      return;
    }
  }
  while (queries >= kMaxQueries) {
    accumulate<kMaxQueries, kFromZero>(factors, ld_factors, strip, count, sums, ld_sums);
    queries -= kMaxQueries;
    factors += kMaxQueries * ld_factors;
    sums += kMaxQueries * ld_sums;
  }
  accumulate_rest<kMaxQueries - 1, kFromZero>(queries, factors, ld_factors, strip, count, sums,
                                              ld_sums);
}

// Asks for memory that is needed soon. A page's neighbours in a sequence lie anywhere, so the CPU
// does not guess them.
ONEGLANCE_INLINE void prefetch(const void* start, int64_t bytes) {
  const char* line = static_cast<const char*>(start);
  for (int64_t offset = 0; offset < bytes; offset += 64) __builtin_prefetch(line + offset);
}

// Some queries that are taken through all steps together.
struct QueryTile {
  const AttendArguments& arguments;
  int begin;
  int count;
  int64_t ld_scores;
  float* strip;    // room for one converted strip
  float* queries;  // [count][head_dim]
  float* sums;     // [count][head_dim]
  float* scores;   // [count][ld_scores], by slot, then by position

  int row(int query) const { return (begin + query) / arguments.group; }
  const SlotRun* runs_begin(int row) const { return arguments.runs + arguments.run_starts[row]; }
  const SlotRun* runs_end(int row) const { return arguments.runs + arguments.run_starts[row + 1]; }
};

inline void load_queries(const QueryTile& tile) {
  const AttendArguments& a = tile.arguments;
  const int head_dim = a.head.head_dim;
  for (int q = 0; q < tile.count; ++q) {
    const int head = (tile.begin + q) % a.group;
    const float* source = a.queries + tile.row(q) * a.ld_queries + head * head_dim;
    float* target = tile.queries + static_cast<int64_t>(q) * head_dim;
    for (int d = 0; d < head_dim; ++d) target[d] = source[d] * a.scale;
  }
}

// Scores of all slots up to the last that a row of the tile sees, siblings' too: they are dropped
// afterwards, which is cheaper than picking columns.
template <typename Element>
inline void score_slots(const QueryTile& tile) {
  const KvHead& head = tile.arguments.head;
  // Rows lie in slots in their order, and each sees its own slot last.
  const SlotRun& last = tile.runs_end(tile.row(tile.count - 1))[-1];
  const int num_slots = last.slot + last.length;
  for (int first = 0; first < num_slots; first += head.page_size) {
    const Element* keys = head.keys<const Element>(tile.arguments.pages[first / head.page_size]);
    const int rest = num_slots - first;
    const int used = rest < head.page_size ? rest : head.page_size;
    const bool is_last = used == rest;
    const int next_page = tile.arguments.pages[first / head.page_size + (is_last ? 0 : 1)];
    const Element* next = head.keys<const Element>(next_page);
    for (int slot = 0; slot < used; slot += kLanes) {
      if (!is_last) {
        prefetch(next + head.key_index(slot, 0), head.head_dim * kLanes * sizeof(Element));
      }
      // A strip writes sixteen scores; those beyond the page are overwritten by the next page's.
      accumulate_all<true>(tile.count, tile.queries, head.head_dim,
                           keys + head.key_index(slot, 0), head.head_dim,
                           tile.scores + first + slot, tile.ld_scores, tile.strip);
    }
  }
}

// Moves the scores that a row sees from their slots to their positions; returns how many.
inline int compact(float* scores, const SlotRun* run, const SlotRun* end) {
  int position = 0;
  for (; run != end; ++run) {
    // A position never exceeds its slot, so an ascending move overwrites nothing still needed.
    if (run->slot != position) {
      for (int i = 0; i < run->length; ++i) scores[position + i] = scores[run->slot + i];
    }
    position += run->length;
  }
  return position;
}

// Replaces `count` scores by exp(score - largest); returns their sum.
inline float exponentiate(float* scores, int count) {
  const int padded = strips_for(count) * kLanes;
  for (int i = count; i < padded; ++i) scores[i] = -__builtin_inff();
  Lanes largest_lanes = load(scores);
  for (int i = kLanes; i < padded; i += kLanes) {
    largest_lanes = larger(load(scores + i), largest_lanes);
  }
  const Lanes largest = broadcast(largest_lane(largest_lanes));
  Lanes sums = broadcast(0.0f);
  for (int i = 0; i < padded; i += kLanes) {
    const Lanes weights = exp(load(scores + i) - largest);
    store(scores + i, weights);
    sums = sums + weights;  // the padding adds 0 to sums that are never -0
  }
  return sum_of_lanes(sums);
}

// Adds the weighted values of `length` slots to the sums of some queries of the tile.
template <typename Element>
inline void mix_run(const QueryTile& tile, int query, int num_queries, int slot, int position,
                    int length) {
  const KvHead& head = tile.arguments.head;
  const int64_t head_dim = head.head_dim;
  const int end = slot + length;
  while (slot < end) {
    const int page = tile.arguments.pages[slot / head.page_size];
    const int in_page = slot % head.page_size;
    int count = head.page_size - in_page;
    count = count < AttendScratch::kMaxChunk ? count : AttendScratch::kMaxChunk;
    count = count < end - slot ? count : end - slot;
    const Element* values = head.values<const Element>(page);
    const float* weights = tile.scores + query * tile.ld_scores + position;
    const int next_slot = slot + count;
    const bool is_last = next_slot == end;
    const int next_page = is_last ? page : tile.arguments.pages[next_slot / head.page_size];
    const Element* next = head.values<const Element>(next_page);
    for (int strip = 0; strip < head_dim / kLanes; ++strip) {
      if (!is_last) {
        prefetch(next + head.value_index(next_slot % head.page_size, strip),
                 count * kLanes * sizeof(Element));
      }
      accumulate_all<false>(num_queries, weights, tile.ld_scores,
                            values + head.value_index(in_page, strip), count,
                            tile.sums + query * head_dim + strip * kLanes, head_dim, tile.strip);
    }
    slot += count;
    position += count;
  }
}

// Values of the slots that all rows of the tile see for all queries at once, then those of each
// row's own.
template <typename Element>
inline void mix_values(const QueryTile& tile) {
  const int64_t size = static_cast<int64_t>(tile.count) * tile.arguments.head.head_dim;
  for (int64_t i = 0; i < size; ++i) tile.sums[i] = 0.0f;
  int shared = tile.runs_begin(tile.row(0))->length;
  for (int row = tile.row(0); row <= tile.row(tile.count - 1); ++row) {
    const int length = tile.runs_begin(row)->length;
    shared = length < shared ? length : shared;
  }
  mix_run<Element>(tile, 0, tile.count, 0, 0, shared);
  for (int q = 0; q < tile.count;) {
    const int row = tile.row(q);
    int next = q + 1;
    while (next < tile.count && tile.row(next) == row) ++next;
    const SlotRun* run = tile.runs_begin(row);
    mix_run<Element>(tile, q, next - q, shared, shared, run->length - shared);
    int position = run->length;
    for (++run; run != tile.runs_end(row); ++run) {
      mix_run<Element>(tile, q, next - q, run->slot, position, run->length);
      position += run->length;
    }
    q = next;
  }
}

template <typename Element>
inline void attend_tile(const QueryTile& tile) {
  const AttendArguments& a = tile.arguments;
  const int head_dim = a.head.head_dim;
  float totals[AttendScratch::kMaxTile];
  load_queries(tile);
  score_slots<Element>(tile);
  for (int q = 0; q < tile.count; ++q) {
    float* scores = tile.scores + q * tile.ld_scores;
    const int row = tile.row(q);
    totals[q] = exponentiate(scores, compact(scores, tile.runs_begin(row), tile.runs_end(row)));
  }
  mix_values<Element>(tile);
  for (int q = 0; q < tile.count; ++q) {
    const int head = (tile.begin + q) % a.group;
    float* target = a.mixed + tile.row(q) * a.ld_mixed + head * head_dim;
    const float* sums = tile.sums + static_cast<int64_t>(q) * head_dim;
    for (int d = 0; d < head_dim; ++d) target[d] = sums[d] / totals[q];
  }
}

void attend(const AttendArguments& arguments) {
  const AttendScratch& scratch = arguments.layout;
  const int64_t head_dim = arguments.head.head_dim;
  float* queries = arguments.scratch + scratch.strip_size;
  float* sums = queries + scratch.tile * head_dim;
  float* scores = sums + scratch.tile * head_dim;
  for (int begin = arguments.query_begin; begin < arguments.query_end; begin += scratch.tile) {
    const int rest = arguments.query_end - begin;
    const int count = rest < scratch.tile ? rest : scratch.tile;
    const QueryTile tile{arguments,         begin,   count, scratch.ld_scores,
                         arguments.scratch, queries, sums,  scores};
    if (arguments.head.is_half) {
      attend_tile<uint16_t>(tile);
    } else {
      attend_tile<float>(tile);
    }
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
