// Chains of draft tokens from an EAGLE-3 head: each token enters the head with the output that
// drafted it. All levels of a draft in one call, since a level takes a few times as long as a call
// from Python.
#pragma once

#include <cstdint>
#include <vector>

#include "layer.h"

namespace oneglance {

// What a head is made of. Matrices, layers and outputs belong to the caller and outlive it.
struct ChainHead {
  const PackedMatrix* embedding;  // [vocabulary, D]
  float eps;
  std::vector<float> embedding_norm;  // [D]
  std::vector<float> feature_norm;    // [D]
  bool norm_before_residual;
  std::vector<const Layer*> layers;  // the first one is given its inputs, [.., 2 D]
  const Head* head;                  // [V_d, D]
  std::vector<int32_t> target_ids;   // of the vocabulary, for as many first outputs as can be drafted

  int hidden_size() const { return head->matrix->inputs; }
  int num_ids() const { return static_cast<int>(target_ids.size()); }
  // Throws std::invalid_argument where the parts do not fit together.
  void check() const;
};

// Where a chain goes on.
struct ChainStart {
  int32_t token;     // drafted last, not yet in the cache
  int32_t position;  // of that token's row; rows at all positions before it are in the cache
  int32_t most;      // levels to add at most, at least 1
  double reach;      // how likely the token is to be accepted
  std::vector<int32_t> pages;  // hold slots 0 to position + most - 1
};

struct ChainRules {
  double min_confidence;          // a chain ends where its reach falls below this
  std::vector<int32_t> end_ids;  // tokens, ascending, after which it ends
  int num_top;                    // best tokens of each level, at least 1
};

// Grows n chains side by side, each until it ends by its own rule: a token's reach is that of the
// token before times its share among the level's best ones, as in drafters/choice.py.
//
// `hidden` is [n][D], the outputs that drafted the tokens. Of chain i and its l-th new level the
// best tokens of the vocabulary and their logits, best first, go to [i][l][num_top] of `ids` and
// `logits`, whose rows are `most_levels` long; returns how many levels each chain got. A level whose
// best logit is not finite is a chain's last. Throws std::invalid_argument or std::out_of_range
// where something does not fit, before anything is written.
std::vector<int32_t> grow_chains(const ChainHead& head, const std::vector<ChainStart>& starts,
                                 const ChainRules& rules, const float* hidden, KvCache& cache,
                                 Workspace& workspace, int most_levels, int64_t* ids,
                                 float* logits);

}  // namespace oneglance
