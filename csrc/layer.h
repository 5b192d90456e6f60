// The operations that a pass is made of; each is one call of the thread pool.
//
// Threads share out rows, heads, queries and tiles of outputs, never the terms of a sum.
#pragma once

#include <cstdint>
#include <vector>

#include "kv_cache.h"
#include "packed.h"
#include "pass.h"
#include "workspace.h"

namespace oneglance {

// One decoder layer. The matrices belong to the caller and outlive it; vectors that the
// architecture lacks are empty.
struct Layer {
  int index;  // of its keys and values in the cache
  int head_dim;
  float eps;
  std::vector<float> input_norm;           // [hidden]; empty: its inputs are given to each call
  const PackedMatrix* q_proj;              // [heads * head_dim, inputs]
  const PackedMatrix* k_proj;              // [kv_heads * head_dim, inputs]
  const PackedMatrix* v_proj;              // [kv_heads * head_dim, inputs]
  const PackedMatrix* o_proj;              // [hidden, heads * head_dim]
  std::vector<float> post_attention_norm;  // [hidden]
  const PackedMatrix* gate_proj;           // [intermediate, hidden]
  const PackedMatrix* up_proj;             // [intermediate, hidden]
  const PackedMatrix* down_proj;           // [hidden, intermediate]
  std::vector<float> qkv_bias;             // [(heads + 2 kv_heads) * head_dim]
  std::vector<float> q_norm;               // [head_dim]
  std::vector<float> k_norm;               // [head_dim]

  int hidden_size() const { return o_proj->outputs; }
  int input_size() const { return q_proj->inputs; }  // hidden unless inputs are given
  int intermediate_size() const { return gate_proj->outputs; }
  int q_size() const { return q_proj->outputs; }
  int kv_size() const { return k_proj->outputs; }
  int num_heads() const { return q_size() / head_dim; }
  int num_kv_heads() const { return kv_size() / head_dim; }

  // Throws std::invalid_argument where the shapes do not fit together.
  void check() const;
};

// The final norm and the output matrix.
struct Head {
  float eps;
  std::vector<float> norm;     // [hidden]; empty: rows enter the matrix as they are
  const PackedMatrix* matrix;  // [vocabulary, hidden]
};

// stream += o_proj(attention(norm(stream))); writes the rows' keys and values to the cache.
//
// `stream` is [rows of the pass][hidden]. Queries, keys and values are made of `inputs` [rows of
// the pass][input_size] instead of norm(stream) where they are given, which they are exactly for a
// layer without an input norm. Throws std::invalid_argument or std::out_of_range where
// layer, pass, cache and rotary tables do not fit together, before anything is written.
void attention_block(const Layer& layer, const Pass& pass, KvCache& cache, Workspace& workspace,
                     float* stream, const float* inputs = nullptr);

// stream += down(silu(gate(norm(stream))) * up(norm(stream))) for `rows` rows.
void mlp_block(const Layer& layer, Workspace& workspace, float* stream, int rows);

// What is read of each row of logits, found while they are in the cache: of the first num_ids, the
// index of the largest (of the first NaN, if there is one) and the log of the sum of exponentials
// (NaN if the largest is not finite). With num_ids = 0 nothing is.
struct RowSummaries {
  int num_ids = 0;
  int64_t* best = nullptr;             // [count]
  double* log_normalizers = nullptr;  // [count]
};

// logits[i] = matrix(norm(stream[wanted[i]])), [count][vocabulary].
void head_logits(const Head& head, Workspace& workspace, const float* stream,
                 const int32_t* wanted, int count, float* logits, RowSummaries summaries = {});

// The num_top best of the logits of the first num_ids tokens, best first, [count][num_top] each;
// the order is that of best_tokens.h. Nothing of the vocabulary's size is written.
// 1 <= num_top <= num_ids <= vocabulary.
void head_top(const Head& head, Workspace& workspace, const float* stream, const int32_t* wanted,
              int count, int num_ids, int num_top, int64_t* ids, float* logits);

// Throws where a pass cannot be evaluated with this layer of this cache.
void check_cache(const Pass& pass, const KvCache& cache, int layer, int num_heads);

// Attention alone, for tests and benchmarks: `queries` and `mixed` are [rows][heads * head_dim],
// keys and values of all slots being in the cache. Throws as attention_block does.
void attend(const Pass& pass, KvCache& cache, int layer, int num_heads, Workspace& workspace,
            const float* queries, float* mixed);

}  // namespace oneglance
