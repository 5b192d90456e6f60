// What a pass evaluates: rows of trees that hang off the prefixes of sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_arguments.h"

namespace oneglance {

struct PassSequence {
  int first_row;
  int num_rows;  // that the pass evaluates
  int prefix_length;
  int num_kept;  // first rows of the tree, evaluated by the passes before and still in flight
  const int32_t* pages;     // pages[i] holds slots i * page_size and following
  const int32_t* run_starts;  // [num_rows + 1] into Pass::runs

  // Rows in flight lie behind the committed slots, in the order of the tree.
  int first_slot() const { return prefix_length + num_kept; }
  int num_slots() const { return first_slot() + num_rows; }
};

// The arrays that describe a pass; "starts" are offsets as in a compressed sparse row matrix.
struct PassArrays {
  std::vector<int32_t> positions;         // [R] of each row, absolute
  std::vector<int32_t> first_rows;        // [S] of each sequence
  std::vector<int32_t> row_counts;        // [S]
  std::vector<int32_t> prefix_lengths;    // [S] committed slots
  std::vector<int32_t> kept_counts;       // [S] rows of the tree that need not be evaluated
  std::vector<int32_t> page_starts;       // [S + 1] into pages
  std::vector<int32_t> pages;             // of each sequence, prefix first
  std::vector<int32_t> ancestor_starts;   // [R + 1] into ancestors
  std::vector<int32_t> ancestors;         // of each row, as rows of its own tree counted from 0, kept
                                          // ones included, ascending, the row itself last
};

// A checked description; never changes, so several threads may read it.
class Pass {
 public:
  // Throws std::invalid_argument where the arrays contradict each other, std::out_of_range where
  // an index lies outside what it refers to.
  Pass(int page_size, PassArrays arrays);
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  int page_size() const { return page_size_; }
  int num_rows() const { return static_cast<int>(arrays_.positions.size()); }
  const int32_t* positions() const { return arrays_.positions.data(); }
  const std::vector<PassSequence>& sequences() const { return sequences_; }
  const SlotRun* runs() const { return runs_.data(); }
  // Greatest position and page id in use.
  int max_position() const { return max_position_; }
  int max_page() const { return max_page_; }

 private:
  void check_sizes() const;
  void add_sequence(std::size_t index);
  void add_runs(int row, int row_in_tree, int prefix_length);
  void check_written_pages() const;

  int page_size_;
  PassArrays arrays_;
  std::vector<PassSequence> sequences_;
  std::vector<int32_t> run_starts_;  // [R + 1]
  std::vector<SlotRun> runs_;
  int max_position_ = 0;
  int max_page_ = 0;
};

}  // namespace oneglance
