#include "suffix_draft.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

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

  SuffixDraft run(const Locus& match, int64_t occurrences, int budget) {
    draft_ = SuffixDraft{};
    draft_.match_length = match.depth;
    waiting_ = {};
    num_candidates_ = 0;
    add_followers(match, 1.0, occurrences, SuffixTree::kNone, 1);
    while (!waiting_.empty() && static_cast<int>(draft_.tokens.size()) < budget) {
      const Candidate chosen = waiting_.top();
      waiting_.pop();
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
    return std::move(draft_);
  }

 private:
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
    if (limits_.max_nodes < 0 || first.prob < limits_.min_prob) {
      offer(first);
      return;
    }
    std::vector<int32_t> children;
    for (int32_t child = tree_.first_child(locus.node); child != SuffixTree::kNone;
         child = tree_.next_sibling(child)) {
      if (candidate(child, 0).prob >= limits_.min_prob) children.push_back(child);
    }
    std::sort(children.begin(), children.end(),
              [&](int32_t one, int32_t other) { return tree_.is_better(one, other); });
    for (const int32_t child : children) offer(candidate(child, tree_.token(child)));
  }

  void offer(Candidate candidate) {
    if (candidate.prob < limits_.min_prob) return;
    candidate.order = num_candidates_++;
    waiting_.push(candidate);
  }

  SuffixTree& tree_;
  const DraftLimits& limits_;
  SuffixDraft draft_;
  std::priority_queue<Candidate, std::vector<Candidate>, ComesLater> waiting_;
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
  require(std::isfinite(limits.factor) && std::isfinite(limits.offset),
          "factor and offset must be finite");
  SuffixDraft best;
  if (limits.max_tokens == 0) return best;
  Drafting drafting(tree, limits);
  // The longest first, so that of equally good ones it stays.
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    const int budget = budget_after(match->depth, limits);
    if (budget == 0) continue;
    const int64_t occurrences = tree.count(match->node) + (is_text_in_tree ? 0 : 1);
    SuffixDraft draft = drafting.run(*match, occurrences, budget);
    if (draft.score > best.score) best = std::move(draft);
  }
  return best;
}

}  // namespace oneglance
