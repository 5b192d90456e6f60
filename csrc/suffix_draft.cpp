#include "suffix_draft.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "require.h"

namespace oneglance {
namespace {

// A token that may be drafted.
struct Candidate {
  double prob;
  int32_t order;  // among all candidates; equal ones are taken in turn
  int32_t token;
  int32_t parent;  // its index in the draft
  int32_t depth;   // in the draft, 1 for the first level
  Locus locus;
};

struct ComesLater {
  bool operator()(const Candidate& one, const Candidate& other) const {
    return one.prob != other.prob ? one.prob < other.prob : one.order > other.order;
  }
};

class Drafting {
 public:
  Drafting(SuffixTree& tree, const DraftLimits& limits) : tree_(tree), limits_(limits) {}

  // Valid until the next call.
  const SuffixDraft& run(const Locus& match, int64_t occurrences, int budget) {
    clear();
    draft_.match_length = match.depth;
    budget_ = budget;
    add_followers(match, 1.0, occurrences, SuffixTree::kNone, 1);
    while (!waiting_.empty() && num_left() > 0) {
      const Candidate chosen = take();
      const auto index = static_cast<int32_t>(draft_.tokens.size());
      draft_.tokens.push_back(chosen.token);
      draft_.parents.push_back(chosen.parent);
      draft_.probs.push_back(chosen.prob);
      draft_.score += chosen.prob;
      const auto& ends = limits_.ends;
      const bool is_end = std::find(ends.begin(), ends.end(), chosen.token) != ends.end();
      if (is_end || chosen.depth == limits_.max_tokens) continue;
      const int64_t count = tree_.count(chosen.locus.node);
      add_followers(chosen.locus, chosen.prob, count, index, chosen.depth + 1);
    }
    return draft_;
  }

 private:
  int num_left() const { return budget_ - static_cast<int>(draft_.tokens.size()); }

  // Keeps the memory: there is a draft for every match.
  void clear() {
    draft_.tokens.clear();
    draft_.parents.clear();
    draft_.probs.clear();
    draft_.score = 0.0;
    waiting_.clear();
    num_candidates_ = 0;
  }

  void add_followers(const Locus& locus, double prob, int64_t occurrences, int32_t parent,
                     int32_t depth) {
    const auto candidate = [&](int32_t node, int32_t token) {
      const double share =
          static_cast<double>(tree_.count(node)) / static_cast<double>(occurrences);
      return Candidate{prob * share, 0, token, parent, depth, {node, locus.depth + 1}};
    };
    if (tree_.is_within_edge(locus)) {
      offer(candidate(locus.node, tree_.label(locus)));
      return;
    }
    const int32_t best = tree_.best_child(locus.node);
    if (best == SuffixTree::kNone) return;
    const Candidate first = candidate(best, tree_.token(best));
    // Hubs have thousands of children, and most of them are reached by matches of one token.
    if (limits_.max_nodes < 0 || num_left() == 1 || first.prob < limits_.min_prob) {
      offer(first);
      return;
    }
    children_.clear();
    for (int32_t child = tree_.first_child(locus.node); child != SuffixTree::kNone;
         child = tree_.next_sibling(child)) {
      if (candidate(child, 0).prob >= limits_.min_prob) children_.push_back(child);
    }
    std::sort(children_.begin(), children_.end(),
              [&](int32_t one, int32_t other) { return tree_.is_better(one, other); });
    for (const int32_t child : children_) offer(candidate(child, tree_.token(child)));
  }

  void offer(Candidate candidate) {
    if (candidate.prob < limits_.min_prob) return;
    candidate.order = num_candidates_++;
    waiting_.push_back(candidate);
    std::push_heap(waiting_.begin(), waiting_.end(), ComesLater());
  }

  Candidate take() {
    std::pop_heap(waiting_.begin(), waiting_.end(), ComesLater());
    const Candidate chosen = waiting_.back();
    waiting_.pop_back();
    return chosen;
  }

  SuffixTree& tree_;
  const DraftLimits& limits_;
  SuffixDraft draft_;
  int budget_ = 0;
  std::vector<Candidate> waiting_;  // a heap
  std::vector<int32_t> children_;
  int32_t num_candidates_ = 0;
};

// Tokens that may be drafted after a match of this length.
int budget_after(int length, const DraftLimits& limits) {
  const int cap = limits.max_nodes < 0 ? limits.max_tokens : limits.max_nodes;
  const double adapted = std::floor(limits.factor * length + limits.offset);
  return static_cast<int>(std::max(0.0, std::min(static_cast<double>(cap), adapted)));
}

}  // namespace

SuffixDraft best_draft(SuffixTree& tree, const std::vector<Locus>& matches, bool is_text_in_tree,
                       const DraftLimits& limits) {
  require(limits.max_tokens >= 0, "max_tokens must not be negative");
  require(std::isfinite(limits.factor) && limits.factor >= 0.0 && std::isfinite(limits.offset),
          "factor and offset must be finite, and the factor not below 0");
  SuffixDraft best;
  if (limits.max_tokens == 0) return best;
  Drafting drafting(tree, limits);
  // The longest first, so that it stays where others are as good. Equally frequent matches are the
  // same occurrences, of which a shorter one has no other continuations and no larger budget, so
  // that only the longest is followed; unless the depth of the tree cut its draft short.
  int64_t followed = 0;
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    const int64_t count = tree.count(match->node);
    if (count == followed) continue;
    const int budget = budget_after(match->depth, limits);
    if (budget <= best.score) break;  // nor has a shorter one more
    const SuffixDraft& draft = drafting.run(*match, count + (is_text_in_tree ? 0 : 1), budget);
    if (draft.score > best.score) best = draft;
    if (tree.max_depth() - match->depth >= limits.max_tokens) followed = count;
  }
  return best;
}

}  // namespace oneglance
