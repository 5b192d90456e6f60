#include "head_chain.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>

#include "float_environment.h"
#include "require.h"

namespace oneglance {
namespace {

// A chain while it grows.
struct Chain {
  const ChainStart* start;
  int index;
  int32_t token;
  int32_t position;
  double reach;
  int num_levels = 0;
};

void check_starts(const std::vector<ChainStart>& starts, const ChainHead& head,
                  const KvCache& cache, const Workspace& workspace, int most_levels) {
  const int vocabulary = head.embedding->outputs;
  for (const ChainStart& start : starts) {
    if (start.token < 0 || start.token >= vocabulary) {
      throw std::out_of_range("token " + std::to_string(start.token) + " does not exist");
    }
    require(start.most >= 1 && start.most <= most_levels,
            "a chain must grow by 1 to " + std::to_string(most_levels) + " levels");
    require(start.position >= 1, "a chain begins behind a row that is in the cache");
    const int64_t end = int64_t{start.position} + start.most;
    require(end <= workspace.rope.context, "a chain would leave the context");
    require(end <= static_cast<int64_t>(start.pages.size()) * cache.page_size(),
            "a chain has too few pages for its rows");
  }
}

// A pass of one row for each chain, behind all rows before it.
Pass describe(const std::vector<Chain>& chains, int page_size) {
  PassArrays arrays;
  const int count = static_cast<int>(chains.size());
  arrays.page_starts.push_back(0);
  for (const Chain& chain : chains) {
    const std::vector<int32_t>& pages = chain.start->pages;
    arrays.positions.push_back(chain.position);
    arrays.pages.insert(arrays.pages.end(), pages.begin(), pages.end());
    arrays.page_starts.push_back(static_cast<int32_t>(arrays.pages.size()));
  }
  arrays.prefix_lengths = arrays.positions;
  arrays.first_rows.resize(count);
  std::iota(arrays.first_rows.begin(), arrays.first_rows.end(), 0);
  arrays.row_counts.assign(count, 1);
  arrays.kept_counts.assign(count, 0);
  arrays.ancestor_starts.resize(count + 1);
  std::iota(arrays.ancestor_starts.begin(), arrays.ancestor_starts.end(), 0);
  arrays.ancestors.assign(count, 0);
  return Pass(page_size, std::move(arrays));
}

// The first layer's inputs [n][2 D] of tokens and the outputs that drafted them; `hidden` becomes
// the residual stream.
std::vector<float> join(const ChainHead& head, const std::vector<Chain>& chains,
                        const KernelTable& kernels, std::vector<float>& hidden) {
  const FloatEnvironment environment;
  const int count = static_cast<int>(chains.size());
  const int64_t size = head.hidden_size();
  std::vector<int32_t> tokens;
  for (const Chain& chain : chains) tokens.push_back(chain.token);
  std::vector<float> embedded(static_cast<std::size_t>(count * size));
  std::vector<float> inputs(2 * embedded.size());
  kernels.embed(*head.embedding, tokens.data(), count, embedded.data(), size);
  kernels.rms_norm(embedded.data(), size, head.embedding_norm.data(), head.eps, count,
                   static_cast<int>(size), inputs.data(), 2 * size);
  kernels.rms_norm(hidden.data(), size, head.feature_norm.data(), head.eps, count,
                   static_cast<int>(size), inputs.data() + size, 2 * size);
  if (head.norm_before_residual) {
    for (int row = 0; row < count; ++row) {
      std::copy_n(inputs.data() + (2 * row + 1) * size, size, hidden.data() + row * size);
    }
  }
  return inputs;
}

// Takes a level's best tokens; false where the chain ends with it.
bool take(Chain& chain, const int64_t* ids, const float* logits, const ChainRules& rules) {
  ++chain.num_levels;
  ++chain.position;
  if (!std::isfinite(logits[0])) return false;
  double mass = 0.0;
  for (int i = 0; i < rules.num_top; ++i) {
    mass += std::exp(static_cast<double>(logits[i]) - static_cast<double>(logits[0]));
  }
  chain.token = static_cast<int32_t>(ids[0]);
  chain.reach /= mass;
  return chain.num_levels < chain.start->most && chain.reach >= rules.min_confidence &&
         !std::binary_search(rules.end_ids.begin(), rules.end_ids.end(), chain.token);
}

}  // namespace

void ChainHead::check() const {
  const auto size = static_cast<std::size_t>(hidden_size());
  require(embedding->inputs == hidden_size(), "embedding and outputs differ in width");
  require(embedding_norm.size() == size && feature_norm.size() == size,
          "the norms must be as wide as the outputs");
  require(!layers.empty(), "a head needs a layer");
  for (const Layer* layer : layers) {
    const bool is_first = layer == layers.front();
    require(layer->hidden_size() == hidden_size() && layer->input_norm.empty() == is_first,
            "only the first layer is given its inputs, and all are as wide as the outputs");
    require(!is_first || layer->input_size() == 2 * hidden_size(),
            "the first layer must read twice the width of the outputs");
  }
  require(1 <= num_ids() && num_ids() <= head->matrix->outputs,
          "target_ids must name 1 to " + std::to_string(head->matrix->outputs) + " outputs");
  for (const int32_t id : target_ids) {
    if (id >= 0 && id < embedding->outputs) continue;
    throw std::out_of_range("target id " + std::to_string(id) + " does not exist");
  }
}

std::vector<int32_t> grow_chains(const ChainHead& head, const std::vector<ChainStart>& starts,
                                 const ChainRules& rules, const float* hidden, KvCache& cache,
                                 Workspace& workspace, int most_levels, int64_t* ids,
                                 float* logits) {
  const int num_top = rules.num_top;
  require(1 <= num_top && num_top <= head.num_ids(),
          std::to_string(num_top) + " tokens cannot be chosen from " +
              std::to_string(head.num_ids()));
  check_starts(starts, head, cache, workspace, most_levels);
  const int64_t size = head.hidden_size();
  std::vector<int32_t> num_levels(starts.size());
  std::vector<Chain> chains;
  for (const ChainStart& start : starts) {
    chains.push_back({&start, static_cast<int>(chains.size()), start.token, start.position,
                      start.reach});
  }
  std::vector<float> stream(hidden, hidden + static_cast<int64_t>(chains.size()) * size);
  while (!chains.empty()) {
    const int count = static_cast<int>(chains.size());
    const Pass pass = describe(chains, cache.page_size());
    const std::vector<float> inputs = join(head, chains, workspace.runtime->kernels, stream);
    for (const Layer* layer : head.layers) {
      attention_block(*layer, pass, cache, workspace, stream.data(),
                      layer == head.layers.front() ? inputs.data() : nullptr);
      mlp_block(*layer, workspace, stream.data(), count);
    }
    std::vector<int32_t> rows(count);
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int64_t> best(static_cast<std::size_t>(count) * num_top);
    std::vector<float> scores(best.size());
    head_top(*head.head, workspace, stream.data(), rows.data(), count, head.num_ids(), num_top,
             best.data(), scores.data());
    for (int64_t& id : best) id = head.target_ids[static_cast<std::size_t>(id)];
    std::vector<Chain> growing;
    for (int row = 0; row < count; ++row) {
      Chain& chain = chains[row];
      const int64_t level = int64_t{chain.index} * most_levels + chain.num_levels;
      std::copy_n(best.data() + int64_t{row} * num_top, num_top, ids + level * num_top);
      std::copy_n(scores.data() + int64_t{row} * num_top, num_top, logits + level * num_top);
      const bool goes_on = take(chain, ids + level * num_top, logits + level * num_top, rules);
      num_levels[chain.index] = chain.num_levels;
      if (!goes_on) continue;
      std::copy_n(stream.data() + row * size, size,
                  stream.data() + static_cast<int64_t>(growing.size()) * size);
      growing.push_back(chain);
    }
    chains = std::move(growing);
  }
  return num_levels;
}

}  // namespace oneglance
