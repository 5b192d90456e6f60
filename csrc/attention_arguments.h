// What the kernels of the key-value cache and of attention are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "always_inline.h"

namespace oneglance {

// Positions whose keys lie side by side, and elements of a value that do.
constexpr int kStripLanes = 16;

constexpr ONEGLANCE_INLINE int strips_for(int count) {
  return (count + kStripLanes - 1) / kStripLanes;
}

// Where the keys and values of one layer and one kv head lie in every page.
//
// Keys:   [strips_for(page_size)][head_dim][16], the last index being the slot.
// Values: [head_dim / 16][page_size][16], the last index being the element.
// So both are read in one sweep, sixteen independent outputs at a time.
struct KvHead {
  std::byte* const* pages;  // by page id
  int64_t key_offset;       // bytes from the start of a page
  int64_t value_offset;
  int page_size;
  int head_dim;
  bool is_half;

  template <typename Element>
  ONEGLANCE_INLINE Element* keys(int page) const {
    return reinterpret_cast<Element*>(pages[page] + key_offset);
  }
  template <typename Element>
  ONEGLANCE_INLINE Element* values(int page) const {
    return reinterpret_cast<Element*>(pages[page] + value_offset);
  }
  ONEGLANCE_INLINE int64_t key_index(int slot, int element) const {
    const int64_t strip = slot / kStripLanes;
    return (strip * head_dim + element) * kStripLanes + slot % kStripLanes;
  }
  // Of the first of sixteen elements.
  ONEGLANCE_INLINE int64_t value_index(int slot, int strip) const {
    return (static_cast<int64_t>(strip) * page_size + slot) * kStripLanes;
  }
};

// Rounds new rows to the cache's type and writes them to slots first_slot, first_slot + 1, ...
struct KvStoreArguments {
  KvHead head;
  const int32_t* pages;  // of the sequence
  int first_slot;
  int rows;
  const float* keys;  // [rows][head_dim], or null: leave the keys
  const float* values;
  int64_t ld;  // floats from row to row
};

// Consecutive slots, whose positions are consecutive too and follow those of the run before.
struct SlotRun {
  int32_t slot;
  int32_t length;
};

// How attention's scratch is divided: queries are taken a tile at a time.
struct AttendScratch {
  static constexpr int kMaxTile = 24;
  static constexpr int kMinTile = 6;
  // Values that are converted at a time.
  static constexpr int kMaxChunk = 64;
  // Scores beyond this leave the second-level cache.
  static constexpr int64_t kMaxScores = 64 * 1024;

  int64_t ld_scores;
  int tile;
  int64_t strip_size;
  int64_t size;  // floats in all

  AttendScratch(int head_dim, int num_slots) {
    // A strip of scores may end, and a softmax block may reach, one strip beyond the last slot.
    ld_scores = static_cast<int64_t>(strips_for(num_slots) + 2) * kStripLanes;
    tile = kMaxTile;
    while (tile > kMinTile && tile * ld_scores > kMaxScores) tile -= kMinTile;
    strip_size = static_cast<int64_t>(head_dim > kMaxChunk ? head_dim : kMaxChunk) * kStripLanes;
    size = strip_size + tile * (2 * static_cast<int64_t>(head_dim) + ld_scores);
  }
};

// Attention of some queries of one sequence and one kv head; query i is head i % group of the
// row i / group.
struct AttendArguments {
  KvHead head;
  const int32_t* pages;       // of the sequence
  const int32_t* run_starts;  // [rows + 1] where each row's runs begin
  const SlotRun* runs;        // a row's first run starts at slot 0 and holds the whole prefix
  int group;
  int query_begin;
  int query_end;
  float scale;
  const float* queries;  // first head of the group in the sequence's first row
  float* mixed;          // the same place in the output
  int64_t ld_queries;    // floats from row to row
  int64_t ld_mixed;
  AttendScratch layout;  // for this head size and at least all slots of the sequence
  float* scratch;        // [layout.size]
};

}  // namespace oneglance
