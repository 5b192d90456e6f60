// A counted suffix tree over sequences of token ids: how often each run of tokens occurred, and
// what followed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "child_table.h"

namespace oneglance {

// A place in the tree: the text from the root down to `depth`, which lies on the edge above `node`
// or at its lower end.
struct Locus {
  int32_t node;
  int32_t depth;
};

// Holds every suffix of every sequence, cut to `max_depth` tokens, on a path from the root.
//
// Path-compressed: a node carries a run of tokens, all with the same count, and is split only
// where a suffix ends or two part. The tokens themselves stay in their sequences; a node refers to
// its latest occurrence there. So a tree of n tokens has at most 2 n nodes, of 40 bytes each,
// whatever the depth (each node but the root ends a suffix or has two children). A child with
// siblings also has a slot of 12 bytes in a hash table that is 3/8 to 3/4 full, once it has grown.
//
// While a sequence grows, so do its last max_depth - 1 suffixes, the node of each of which is
// remembered. A suffix that nothing else has shares its sequence's end ("open") and costs nothing
// then; another one moves on by one token, which touches one child. So a token costs O(max_depth).
//
// All calls have the same result in the same order of calls; there is no float in the tree. Not
// for several threads at once.
class SuffixTree {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  // Throws std::invalid_argument unless max_depth is from 2 to 1024.
  explicit SuffixTree(int max_depth);

  // Begins an empty sequence. Numbers rise from 0 and are not used again.
  int32_t start();

  // Adds tokens at the end of a sequence. Throws std::out_of_range if there is no such sequence,
  // std::invalid_argument for a negative token or where the tree would hold 2^29 tokens.
  void append(int32_t sequence, const std::vector<int32_t>& tokens);

  // Takes a sequence out again, with all it has counted. In the order in which sequences began
  // this costs what appending did; in another order, sometimes a walk over all that remains.
  void remove(int32_t sequence);

  // How often these tokens occurred, one after another, if they are at most max_depth.
  int64_t count(const std::vector<int32_t>& tokens) const;

  // Places of the last 1, 2, ... tokens of a sequence, as far as they occurred elsewhere too.
  // At each, the end of the sequence itself is counted.
  std::vector<Locus> matches_after(int32_t sequence) const;

  // The same for a text that is not in the tree.
  std::vector<Locus> matches_of(const std::vector<int32_t>& text) const;

  // What came next at a place: the only token if it lies within an edge, otherwise each child.
  int64_t count(int32_t node) const { return nodes_[node].count; }
  bool is_within_edge(const Locus& locus) const { return locus.depth < end_depth(locus.node); }
  int32_t label(const Locus& locus) const;  // the token below a place within an edge
  int32_t token(int32_t node) const { return nodes_[node].token; }
  int32_t first_child(int32_t node) const { return nodes_[node].first_child; }
  int32_t next_sibling(int32_t node) const { return nodes_[node].next; }

  // The child with the highest count, or kNone; found again only after it was taken out.
  int32_t best_child(int32_t node);

  // The order of children: more occurrences first, then the latest occurrence, which is that in
  // the sequence begun last, at its last position.
  bool is_better(int32_t node, int32_t other) const;

  int max_depth() const { return max_depth_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_nodes() const { return static_cast<int64_t>(nodes_.size() - free_.size()); }
  int64_t num_bytes() const;

 private:
  static constexpr int32_t kUnknown = -2;  // the best child must be searched

  struct Node {
    int32_t parent = kNone;
    int32_t token = kNone;  // first of its label
    int32_t count = 0;      // suffixes that come here
    int32_t sequence = kNone;
    int32_t start = 0;  // of its label in that sequence, the latest occurrence
    int32_t first_child = kNone;
    int32_t next = kNone;  // siblings
    int32_t previous = kNone;
    int32_t best = kNone;
    int16_t depth = 0;     // of its lower end, unless it is open
    bool is_open = false;  // a single suffix, which goes on to the end of its sequence
  };

  struct Sequence {
    std::vector<int32_t> tokens;
    std::vector<int32_t> ends;  // nodes where its last suffixes end, the longest first
    bool is_live = true;
  };

  Sequence& live(int32_t sequence);
  const Sequence& live(int32_t sequence) const;
  const Sequence& owner(const Node& node) const {
    return sequences_[static_cast<std::size_t>(node.sequence - first_sequence_)];
  }
  int32_t end_depth(int32_t node) const;
  int32_t suffix_length(const Sequence& sequence, std::size_t start) const;
  bool find_run(const int32_t* tokens, int32_t length, Locus* found) const;

  // One suffix of `sequence`, which ends at `node`, goes on with the token at `position`; each
  // gives the node where it ends then.
  int32_t advance(int32_t node, int32_t sequence, int32_t position, int32_t token);
  int32_t add_leaf(int32_t parent, int32_t sequence, int32_t position, int32_t token);
  int32_t enter(int32_t node, int32_t child, int32_t sequence, int32_t position);
  int32_t enter_whole(int32_t node, int32_t child, bool is_alone, int32_t sequence,
                      int32_t position);
  int32_t split(int32_t node, int32_t child, int32_t sequence, int32_t position);

  bool remove_suffix(int32_t sequence, std::size_t start);
  void refresh_occurrences();
  void see(int32_t node, int32_t sequence, int32_t start);
  void rank(int32_t node);

  int32_t new_node();
  int32_t find_child(int32_t node, int32_t token) const;
  bool has_siblings(int32_t node) const;
  void link(int32_t node);
  void unlink(int32_t node);
  void put_in_place_of(int32_t node, int32_t old);
  void cut_first_token(int32_t node, int32_t new_parent);
  void merge_into(int32_t node, int32_t child);

  int max_depth_;
  int64_t num_tokens_ = 0;
  std::vector<Node> nodes_;
  std::vector<int32_t> free_;
  ChildTable children_;
  std::deque<Sequence> sequences_;
  int32_t first_sequence_ = 0;
};

}  // namespace oneglance
