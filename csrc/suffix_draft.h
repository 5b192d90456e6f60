// What a suffix tree says will come next.
#pragma once

#include <cstdint>
#include <vector>

#include "suffix_tree.h"

namespace oneglance {

struct DraftLimits {
  int max_tokens;    // on a path
  int max_nodes;     // on all paths together; below 0: a single path, of the best children
  double factor;     // a match of m tokens may be followed by floor(factor * m + offset) of them
  double offset;
  double min_prob;   // of a path
  std::vector<int32_t> ends;  // nothing is drafted after one of these
};

struct SuffixDraft {
  std::vector<int32_t> tokens;
  std::vector<int32_t> parents;  // -1 for the first level; ancestors come first
  std::vector<double> probs;     // estimated, of the path down to each token
  double score = 0.0;            // their sum: how many tokens of the draft will be accepted
  int match_length = 0;          // of what was found; 0 if nothing is drafted
};

// The draft with the highest score of those after each of the matches, of the longest one if
// several have it (SuffixDecoding, arXiv:2411.04975).
//
// A match of count n with a child of count c estimates that child's probability as c / n, and as
// c / (n + 1) where the text that is matched is not in the tree: it is one more occurrence, whose
// next token nobody knows. So what was seen once before has probability 1/2 in either case.
//
// `matches` are those of the last 1, 2, ... tokens.
SuffixDraft best_draft(SuffixTree& tree, const std::vector<Locus>& matches, bool is_text_in_tree,
                       const DraftLimits& limits);

}  // namespace oneglance
