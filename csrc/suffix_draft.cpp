#include "suffix_draft.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

#include "require.h"

namespace oneglance {
namespace {

constexpr double kRounding = 1e-9;  // more than the rounding of a score

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
    add_followers(match, 1.0, occurrences, SuffixTree::kNone, 1);
    while (!waiting_.empty() && static_cast<int>(draft_.tokens.size()) < budget) {
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
    if (limits_.max_nodes < 0 || first.prob < limits_.min_prob) {
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

// What the score after a match cannot exceed: no path is more probable than its first token, and
// on each level the paths together have at most probability 1. The sum is made as the score's own
// is, so that rounding cannot make it smaller.
double score_bound(SuffixTree& tree, const Locus& match, int64_t occurrences, int budget,
                   const DraftLimits& limits) {
  const int levels = std::min(limits.max_tokens, tree.max_depth() - match.depth);
  const int terms = limits.max_nodes < 0 ? std::min(budget, levels) : budget;
  const bool is_within = tree.is_within_edge(match);
  const int32_t best = is_within ? match.node : tree.best_child(match.node);
  if (best == SuffixTree::kNone) return 0.0;
  const double first =
      static_cast<double>(tree.count(best)) / static_cast<double>(occurrences);
  if (first < limits.min_prob) return 0.0;
  double sum = 0.0;
  for (int term = 0; term < terms; ++term) sum += first;
  return limits.max_nodes < 0 ? sum : std::min(sum, levels * (1.0 + kRounding));
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
  const auto try_match = [&](const Locus& match) {
    const int budget = budget_after(match.depth, limits);
    const int64_t occurrences = tree.count(match.node) + (is_text_in_tree ? 0 : 1);
    const double bound = score_bound(tree, match, occurrences, budget, limits);
    const auto is_beaten_by_best = [&](double score) {
      return score < best.score || (score == best.score && match.depth < best.match_length);
    };
    if (bound == 0.0 || is_beaten_by_best(bound)) return;
    const SuffixDraft& draft = drafting.run(match, occurrences, budget);
    if (draft.score > 0.0 && !is_beaten_by_best(draft.score)) best = draft;
  };
  // First the longest that leaves room in the tree for a whole draft: most others cannot beat it.
  const auto num_matches = static_cast<std::ptrdiff_t>(matches.size());
  const std::ptrdiff_t room = std::max(0, tree.max_depth() - limits.max_tokens);
  const auto middle = matches.begin() + std::min(num_matches, room);
  std::for_each(std::make_reverse_iterator(middle), matches.rend(), try_match);
  std::for_each(middle, matches.end(), try_match);
  return best;
}

}  // namespace oneglance
