// The nodes of a suffix tree: how they hang together, and the order of children.
#include <utility>

#include "suffix_tree.h"

namespace oneglance {

// Order of children.

bool SuffixTree::is_better(int32_t node, int32_t other) const {
  const Node& one = nodes_[node];
  const Node& two = nodes_[other];
  if (one.count != two.count) return one.count > two.count;
  return std::make_pair(one.sequence, one.start) > std::make_pair(two.sequence, two.start);
}

// Called where a node's count or latest occurrence has risen.
void SuffixTree::rank(int32_t node) {
  int32_t& best = nodes_[nodes_[node].parent].best;
  if (best == kNone || (best >= 0 && is_better(node, best))) best = node;
}

int32_t SuffixTree::best_child(int32_t node) {
  if (nodes_[node].best == kUnknown) {
    int32_t best = nodes_[node].first_child;
    for (int32_t child = best; child != kNone; child = nodes_[child].next) {
      if (is_better(child, best)) best = child;
    }
    nodes_[node].best = best;
  }
  return nodes_[node].best;
}

// Nodes and how they hang together.

int32_t SuffixTree::new_node() {
  if (free_.empty()) {
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size()) - 1;
  }
  const int32_t node = free_.back();
  free_.pop_back();
  nodes_[node] = Node{};
  return node;
}

// An only child is not in the table: most nodes have one, and it changes with every token.
int32_t SuffixTree::find_child(int32_t node, int32_t token) const {
  const int32_t first = nodes_[node].first_child;
  if (first == kNone || nodes_[first].token == token) return first;
  return nodes_[first].next == kNone ? kNone : children_.find(node, token);
}

bool SuffixTree::has_siblings(int32_t node) const {
  return nodes_[node].next != kNone || nodes_[node].previous != kNone;
}

void SuffixTree::link(int32_t node) {
  Node& it = nodes_[node];
  const int32_t first = nodes_[it.parent].first_child;
  nodes_[it.parent].first_child = node;
  if (first == kNone) return;
  if (nodes_[first].next == kNone) children_.set(it.parent, nodes_[first].token, first);
  it.next = first;
  nodes_[first].previous = node;
  children_.set(it.parent, it.token, node);
}

void SuffixTree::unlink(int32_t node) {
  const Node& it = nodes_[node];
  free_.push_back(node);
  if (has_siblings(node)) children_.erase(it.parent, it.token);
  (it.previous == kNone ? nodes_[it.parent].first_child : nodes_[it.previous].next) = it.next;
  if (it.next != kNone) nodes_[it.next].previous = it.previous;
  const int32_t first = nodes_[it.parent].first_child;
  if (first != kNone && nodes_[first].next == kNone) {
    children_.erase(it.parent, nodes_[first].token);
  }
}

// Among the children of `node`'s parent; both begin with the same token.
void SuffixTree::put_in_place_of(int32_t node, int32_t old) {
  Node& it = nodes_[node];
  Node& parent = nodes_[it.parent];
  it.next = nodes_[old].next;
  it.previous = nodes_[old].previous;
  (it.previous == kNone ? parent.first_child : nodes_[it.previous].next) = node;
  if (it.next != kNone) nodes_[it.next].previous = node;
  if (parent.best == old) parent.best = node;
  if (has_siblings(node)) children_.set(it.parent, it.token, node);
}

// The token goes to the node above.
void SuffixTree::cut_first_token(int32_t node, int32_t new_parent) {
  Node& it = nodes_[node];
  ++it.start;
  it.token = owner(it).tokens[static_cast<std::size_t>(it.start)];
  it.parent = new_parent;
}

// The child, which is the only one, takes the place and the label of `node`.
void SuffixTree::merge_into(int32_t node, int32_t child) {
  const Node& it = nodes_[node];
  Node& below = nodes_[child];
  below.start -= it.depth - nodes_[it.parent].depth;
  below.token = it.token;
  below.parent = it.parent;
  put_in_place_of(child, node);
  free_.push_back(node);
}

}  // namespace oneglance
