#include "pass.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "require.h"

namespace oneglance {
namespace {

// Slots of a sequence; far from overflow in any sum.
constexpr int64_t kMaxSlots = int64_t{1} << 30;

void require_starts(const std::vector<int32_t>& starts, std::size_t items, std::size_t total,
                    const std::string& name) {
  require(starts.size() == items + 1, name + " must have one entry more than it has items");
  require(starts.front() == 0 && std::is_sorted(starts.begin(), starts.end()) &&
              static_cast<std::size_t>(starts.back()) == total,
          name + " must ascend from 0 to the number of what it divides");
}

}  // namespace

Pass::Pass(int page_size, PassArrays arrays) : page_size_(page_size), arrays_(std::move(arrays)) {
  check_sizes();
  run_starts_.reserve(arrays_.positions.size() + 1);
  run_starts_.push_back(0);
  for (std::size_t index = 0; index < arrays_.first_rows.size(); ++index) add_sequence(index);
  require(static_cast<std::size_t>(run_starts_.size()) == arrays_.positions.size() + 1,
          "the sequences must cover all rows");
  for (PassSequence& sequence : sequences_) {
    sequence.run_starts = run_starts_.data() + sequence.first_row;
  }
  max_position_ = *std::max_element(arrays_.positions.begin(), arrays_.positions.end());
  max_page_ = *std::max_element(arrays_.pages.begin(), arrays_.pages.end());
  check_written_pages();
}

void Pass::check_sizes() const {
  const std::size_t count = arrays_.first_rows.size();
  require(page_size_ >= 1, "page_size must be at least 1");
  require(!arrays_.positions.empty(), "a pass needs at least one row");
  require(arrays_.positions.size() <= kMaxSlots && arrays_.pages.size() <= kMaxSlots,
          "a pass has too many rows or pages");
  require(arrays_.row_counts.size() == count && arrays_.prefix_lengths.size() == count &&
              arrays_.kept_counts.size() == count,
          "first_rows, row_counts, prefix_lengths and kept_counts must be equally long");
  require_starts(arrays_.page_starts, count, arrays_.pages.size(), "page_starts");
  require_starts(arrays_.ancestor_starts, arrays_.positions.size(), arrays_.ancestors.size(),
                 "ancestor_starts");
  for (const int32_t page : arrays_.pages) {
    if (page < 0) throw std::out_of_range("page " + std::to_string(page) + " does not exist");
  }
}

void Pass::add_sequence(std::size_t index) {
  const int first_row = arrays_.first_rows[index];
  const int num_rows = arrays_.row_counts[index];
  const int prefix_length = arrays_.prefix_lengths[index];
  const int num_kept = arrays_.kept_counts[index];
  require(num_rows >= 1 && prefix_length >= 0 && num_kept >= 0,
          "a sequence needs rows, and a prefix and kept rows of 0 or more");
  require(static_cast<std::size_t>(first_row) + 1 == run_starts_.size(),
          "the rows of a sequence must follow those of the sequence before");
  const int64_t end_row = static_cast<int64_t>(first_row) + num_rows;
  if (end_row > this->num_rows()) {
    throw std::out_of_range("a sequence has more rows than there are");
  }
  const int64_t num_slots = static_cast<int64_t>(prefix_length) + num_kept + num_rows;
  const int page_start = arrays_.page_starts[index];
  const int64_t num_pages = arrays_.page_starts[index + 1] - page_start;
  require(num_slots <= kMaxSlots && num_slots <= num_pages * page_size_,
          "a sequence has too few pages for its prefix and rows");
  for (int row = 0; row < num_rows; ++row) {
    add_runs(first_row + row, num_kept + row, prefix_length);
  }
  sequences_.push_back(
      {first_row, num_rows, prefix_length, num_kept, arrays_.pages.data() + page_start, nullptr});
}

// Turns the ancestors of a row into runs of consecutive slots. The first run is the prefix and
// such ancestors as continue it.
void Pass::add_runs(int row, int row_in_tree, int prefix_length) {
  const int32_t* ancestor = arrays_.ancestors.data() + arrays_.ancestor_starts[row];
  const int32_t* end = arrays_.ancestors.data() + arrays_.ancestor_starts[row + 1];
  require(ancestor < end && end[-1] == row_in_tree,
          "the last ancestor of a row must be the row itself");
  require(arrays_.positions[row] == prefix_length + (end - ancestor) - 1,
          "a row's position must be its prefix length plus the number of ancestors before it");
  runs_.push_back({0, prefix_length});
  int32_t previous = -1;
  for (; ancestor < end; ++ancestor) {
    require(*ancestor > previous, "the ancestors of a row must be rows of its tree and ascend");
    const int32_t slot = prefix_length + *ancestor;
    if (slot == runs_.back().slot + runs_.back().length) {
      ++runs_.back().length;
    } else {
      runs_.push_back({slot, 1});
    }
    previous = *ancestor;
  }
  run_starts_.push_back(static_cast<int32_t>(runs_.size()));
}

// Two rows must never be written to one slot.
void Pass::check_written_pages() const {
  std::vector<int32_t> written;
  for (const PassSequence& sequence : sequences_) {
    const int last = (sequence.num_slots() - 1) / page_size_;
    for (int i = sequence.first_slot() / page_size_; i <= last; ++i) {
      written.push_back(sequence.pages[i]);
    }
  }
  std::sort(written.begin(), written.end());
  require(std::adjacent_find(written.begin(), written.end()) == written.end(),
          "a page would be written by two sequences, or twice by one");
}

}  // namespace oneglance
