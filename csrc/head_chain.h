// Chains of draft tokens from an EAGLE-3 head: each token enters the head with the output that
// drafted it. A whole draft is one call, since a pass of a head takes less time than a call from
// Python takes to prepare it.
#pragma once

#include <cstdint>
#include <vector>

#include "layer.h"
#include "row_kernels.h"

namespace oneglance {

// What a head is made of. Matrices, layers and outputs belong to the caller and outlive it.
struct ChainHead {
  const PackedMatrix* embedding;  // [vocabulary, D]
  const PackedMatrix* fc;         // [D, F] joins a target's features
  std::vector<float> fc_bias;     // [D]; empty: none
  float eps;
  std::vector<float> embedding_norm;  // [D]
  std::vector<float> feature_norm;    // [D]
  bool norm_before_residual;
  std::vector<const Layer*> layers;  // the first one is given its inputs, [.., 2 D]
  const Head* head;                  // [V_d, D]
  std::vector<int64_t> target_ids;   // of the vocabulary, for as many first outputs as can be drafted

  int hidden_size() const { return head->matrix->inputs; }
  int feature_size() const { return fc->inputs; }
  int num_ids() const { return static_cast<int>(target_ids.size()); }
  // Throws where the parts do not fit together.
  void check() const;
};

// Where a chain begins: rows whose features are known, at least one.
struct ChainStart {
  std::vector<int32_t> tokens;  // of these rows, the second ones of their pairs
  int32_t position;             // of the first of them; rows before it are in the cache
  int32_t most;                 // tokens to draft at most, at least 1
  std::vector<int32_t> pages;   // with slots for all rows, drafted tokens but the last included
  double temperature;           // its tokens are drawn with keyed noise; 0: the best ones
  NoiseKey noise;               // of its first token; those after it are at the next positions

  int num_rows() const { return static_cast<int>(tokens.size()); }
  int64_t num_slots() const { return int64_t{position} + num_rows() + most - 1; }
};

struct ChainRules {
  double min_confidence;         // a chain ends where its reach falls below this
  std::vector<int32_t> end_ids;  // tokens, ascending, after which it ends
  int num_top;                   // best tokens of each place, at least 1
  int num_drawn;                 // drawn tokens of each place, at least 1 where any are drawn
};

// Where the results go: of chain i and its l-th token, row [i][l] of `num_levels` rows each.
struct ChainResults {
  int num_levels;
  int64_t* ids;         // [chains][levels][num_top] the best tokens of the vocabulary, best first
  float* logits;        // their logits
  int64_t* drawn_ids;   // [chains][levels][num_drawn] the best ones with noise, of chains that
  float* drawn_logits;  // draw; -1 where fewer have a probability
};

// Grows chains side by side, each until it ends by its own rule: a token's reach is that of the
// token before times how likely it is to be kept, as in drafters/choice.py: its share among the best
// ones of its place or, if it was drawn, (1 + share) / 2.
//
// `features` is [rows of all chains][F]. Returns how many tokens each chain got. A place whose best
// logit is not finite is a chain's last. Throws std::invalid_argument or std::out_of_range where
// something does not fit, before anything is written.
std::vector<int32_t> grow_chains(const ChainHead& head, const std::vector<ChainStart>& starts,
                                 const ChainRules& rules, const float* features, KvCache& cache,
                                 Workspace& workspace, const ChainResults& results);

}  // namespace oneglance
