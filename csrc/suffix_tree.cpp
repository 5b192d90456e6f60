#include "suffix_tree.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "require.h"

namespace oneglance {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 29;  // so that 2 n nodes have a number

}  // namespace

SuffixTree::SuffixTree(int max_depth) : max_depth_(max_depth), nodes_(1) {
  require(max_depth >= 2 && max_depth <= 1024, "max_depth must be from 2 to 1024");
}

int32_t SuffixTree::start() {
  sequences_.emplace_back();
  return first_sequence_ + static_cast<int32_t>(sequences_.size()) - 1;
}

SuffixTree::Sequence& SuffixTree::live(int32_t sequence) {
  return const_cast<Sequence&>(static_cast<const SuffixTree*>(this)->live(sequence));
}

const SuffixTree::Sequence& SuffixTree::live(int32_t sequence) const {
  const int64_t index = static_cast<int64_t>(sequence) - first_sequence_;
  const bool is_known = index >= 0 && index < static_cast<int64_t>(sequences_.size()) &&
                        sequences_[static_cast<std::size_t>(index)].is_live;
  if (!is_known) throw std::out_of_range("there is no sequence " + std::to_string(sequence));
  return sequences_[static_cast<std::size_t>(index)];
}

int32_t SuffixTree::end_depth(int32_t node) const {
  const Node& it = nodes_[node];
  if (!it.is_open) return it.depth;
  const int64_t to_the_end = static_cast<int64_t>(owner(it).tokens.size()) - it.start;
  return static_cast<int32_t>(
      std::min<int64_t>(max_depth_, nodes_[it.parent].depth + to_the_end));
}

int32_t SuffixTree::label(const Locus& locus) const {
  const Node& it = nodes_[locus.node];
  const int32_t offset = locus.depth - nodes_[it.parent].depth;
  return owner(it).tokens[static_cast<std::size_t>(it.start + offset)];
}

int32_t SuffixTree::suffix_length(const Sequence& sequence, std::size_t start) const {
  const std::size_t to_the_end = sequence.tokens.size() - start;
  return static_cast<int32_t>(std::min(static_cast<std::size_t>(max_depth_), to_the_end));
}

int64_t SuffixTree::num_bytes() const {
  std::size_t bytes = nodes_.capacity() * sizeof(Node) + free_.capacity() * sizeof(int32_t);
  for (const Sequence& sequence : sequences_) {
    bytes += sizeof(Sequence);
    bytes += (sequence.tokens.capacity() + sequence.ends.capacity()) * sizeof(int32_t);
  }
  return static_cast<int64_t>(bytes + children_.num_bytes());
}

// Appending.

void SuffixTree::append(int32_t sequence, const std::vector<int32_t>& tokens) {
  Sequence& it = live(sequence);
  for (const int32_t token : tokens) require(token >= 0, "token ids must not be negative");
  require(num_tokens_ + static_cast<int64_t>(tokens.size()) < kMaxTokens,
          "the tree cannot hold so many tokens");
  for (const int32_t token : tokens) {
    const auto position = static_cast<int32_t>(it.tokens.size());
    it.tokens.push_back(token);
    it.ends.push_back(kRoot);
    for (int32_t& end : it.ends) end = advance(end, sequence, position, token);
    if (static_cast<int>(it.ends.size()) == max_depth_) it.ends.erase(it.ends.begin());
    ++num_tokens_;
  }
}

int32_t SuffixTree::advance(int32_t node, int32_t sequence, int32_t position, int32_t token) {
  Node& it = nodes_[node];
  if (it.is_open) return node;
  if (node != kRoot && it.count == 1) {
    // It is alone here since others were taken out: from now on it ends with its sequence.
    it.sequence = sequence;
    it.start = position - (it.depth - nodes_[it.parent].depth);
    it.is_open = true;
    return node;
  }
  const int32_t child = find_child(node, token);
  if (child == kNone) return add_leaf(node, sequence, position, token);
  return enter(node, child, sequence, position);
}

int32_t SuffixTree::add_leaf(int32_t parent, int32_t sequence, int32_t position, int32_t token) {
  const int32_t leaf = new_node();
  Node& it = nodes_[leaf];
  it.parent = parent;
  it.token = token;
  it.count = 1;
  it.sequence = sequence;
  it.start = position;
  it.is_open = true;
  link(leaf);
  rank(leaf);
  return leaf;
}

int32_t SuffixTree::enter(int32_t node, int32_t child, int32_t sequence, int32_t position) {
  const Node& below = nodes_[child];
  // Whether no suffix would end at `node` any more, and nothing branch off.
  const bool is_alone = node != kRoot && nodes_[node].first_child == child &&
                        below.next == kNone && nodes_[node].count == below.count + 1;
  if (end_depth(child) == nodes_[node].depth + 1) {
    return enter_whole(node, child, is_alone, sequence, position);
  }
  if (!is_alone) return split(node, child, sequence, position);
  // The border between the two moves on by one token.
  cut_first_token(child, node);
  ++nodes_[node].depth;
  return node;
}

// The child's label is one token long.
int32_t SuffixTree::enter_whole(int32_t node, int32_t child, bool is_alone, int32_t sequence,
                                int32_t position) {
  Node& it = nodes_[child];
  it.depth = static_cast<int16_t>(nodes_[node].depth + 1);
  it.is_open = false;
  ++it.count;
  if (is_alone) merge_into(node, child);
  see(child, sequence, position + 1 - (it.depth - nodes_[it.parent].depth));
  rank(child);
  return child;
}

// A new node takes the first token of the child's label.
int32_t SuffixTree::split(int32_t node, int32_t child, int32_t sequence, int32_t position) {
  const int32_t middle = new_node();
  Node& it = nodes_[middle];
  const Node& below = nodes_[child];
  it.parent = node;
  it.token = below.token;
  it.count = below.count + 1;
  it.sequence = below.sequence;
  it.start = below.start;
  it.depth = static_cast<int16_t>(nodes_[node].depth + 1);
  it.first_child = child;
  it.best = child;
  put_in_place_of(middle, child);
  cut_first_token(child, middle);
  nodes_[child].next = nodes_[child].previous = kNone;
  see(middle, sequence, position);
  rank(middle);
  return middle;
}

// Removing.

void SuffixTree::remove(int32_t sequence) {
  Sequence& it = live(sequence);
  bool are_some_stale = false;
  for (std::size_t start = 0; start < it.tokens.size(); ++start) {
    are_some_stale |= remove_suffix(sequence, start);
  }
  num_tokens_ -= static_cast<int64_t>(it.tokens.size());
  it.tokens = {};
  it.ends = {};
  it.is_live = false;
  // One stays, so that its number is not given again.
  while (sequences_.size() > 1 && !sequences_.front().is_live) {
    sequences_.pop_front();
    ++first_sequence_;
  }
  if (are_some_stale) refresh_occurrences();
}

// Whether a node that remains has lost its latest occurrence, which happens only if another one is
// in a sequence that began before. Suffixes must be removed from the first on.
bool SuffixTree::remove_suffix(int32_t sequence, std::size_t start) {
  const std::vector<int32_t>& tokens = live(sequence).tokens;
  const int32_t length = suffix_length(live(sequence), start);
  bool is_stale = false;
  int32_t node = kRoot;
  for (int32_t depth = 0; depth < length;) {
    const auto position = static_cast<int32_t>(start) + depth;
    const int32_t child = find_child(node, tokens[static_cast<std::size_t>(position)]);
    Node& it = nodes_[child];
    if (nodes_[node].best == child) nodes_[node].best = kUnknown;
    if (--it.count == 0) {
      unlink(child);
      break;
    }
    if (it.sequence == sequence && it.start == position) {
      it.sequence = kNone;
      is_stale = true;
    }
    depth = it.depth;
    node = child;
  }
  const int32_t child = nodes_[node].first_child;
  const bool is_border = node == kRoot || child == kNone || nodes_[child].next != kNone ||
                         nodes_[child].count != nodes_[node].count;
  if (!is_border) merge_into(node, child);
  return is_stale;
}

// Shows every node all its occurrences, so that those without one know their latest again.
void SuffixTree::refresh_occurrences() {
  for (std::size_t index = 0; index < sequences_.size(); ++index) {
    const Sequence& it = sequences_[index];
    for (std::size_t start = 0; start < it.tokens.size(); ++start) {
      int32_t node = kRoot;
      for (int32_t depth = 0; depth < suffix_length(it, start); depth = end_depth(node)) {
        const std::size_t position = start + static_cast<std::size_t>(depth);
        node = find_child(node, it.tokens[position]);
        see(node, first_sequence_ + static_cast<int32_t>(index), static_cast<int32_t>(position));
      }
    }
  }
}

// Notes an occurrence of a node's label if it is later than the one that is known.
void SuffixTree::see(int32_t node, int32_t sequence, int32_t start) {
  Node& it = nodes_[node];
  if (std::make_pair(it.sequence, it.start) >= std::make_pair(sequence, start)) return;
  it.sequence = sequence;
  it.start = start;
}

// Looking up.

bool SuffixTree::find_run(const int32_t* tokens, int32_t length, Locus* found) const {
  Locus locus{kRoot, 0};
  while (locus.depth < length) {
    locus.node = find_child(locus.node, tokens[locus.depth]);
    if (locus.node == kNone) return false;
    const Node& it = nodes_[locus.node];
    const int32_t end = std::min(length, end_depth(locus.node));
    const int32_t* label = owner(it).tokens.data() + it.start;
    if (!std::equal(tokens + locus.depth, tokens + end, label)) return false;
    locus.depth = end;
  }
  *found = locus;
  return true;
}

int64_t SuffixTree::count(const std::vector<int32_t>& tokens) const {
  if (tokens.empty()) return num_tokens_;
  Locus locus{};
  const bool is_short = static_cast<int64_t>(tokens.size()) <= max_depth_;
  require(is_short, "more tokens than the tree is deep");
  const auto length = static_cast<int32_t>(tokens.size());
  return find_run(tokens.data(), length, &locus) ? nodes_[locus.node].count : 0;
}

std::vector<Locus> SuffixTree::matches_after(int32_t sequence) const {
  std::vector<Locus> matches;
  const std::vector<int32_t>& ends = live(sequence).ends;
  for (auto end = ends.rbegin(); end != ends.rend() && nodes_[*end].count > 1; ++end) {
    matches.push_back({*end, static_cast<int32_t>(matches.size()) + 1});
  }
  return matches;
}

std::vector<Locus> SuffixTree::matches_of(const std::vector<int32_t>& text) const {
  std::vector<Locus> matches;
  const int32_t longest =
      static_cast<int32_t>(std::min<std::size_t>(text.size(), max_depth_ - 1));
  Locus locus{};
  for (int32_t length = 1; length <= longest; ++length) {
    const int32_t* tail = text.data() + text.size() - length;
    if (!find_run(tail, length, &locus)) break;
    matches.push_back(locus);
  }
  return matches;
}

}  // namespace oneglance
