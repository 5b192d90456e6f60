#include "head_chain.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "float_environment.h"
#include "require.h"
#include "rows.h"
#include "shared_work.h"

namespace oneglance {
namespace {

// A chain while it grows.
struct Chain {
  const ChainStart* start;
  int index;
  std::vector<int32_t> tokens;  // that the next pass evaluates
  int32_t position;             // of the first of them
  double reach = 1.0;
  int num_drafted = 0;
};

int64_t total_rows(const std::vector<Chain>& chains) {
  int64_t rows = 0;
  for (const Chain& chain : chains) rows += static_cast<int64_t>(chain.tokens.size());
  return rows;
}

void check_starts(const std::vector<ChainStart>& starts, const ChainHead& head,
                  const KvCache& cache, const Workspace& workspace, int num_levels,
                  int num_drawn) {
  for (const ChainStart& start : starts) {
    require(std::isfinite(start.temperature) && start.temperature >= 0.0,
            "a temperature must be finite and not below 0");
    require(start.temperature == 0.0 || (1 <= num_drawn && num_drawn <= head.num_ids()),
            std::to_string(num_drawn) + " tokens cannot be drawn from " +
                std::to_string(head.num_ids()));
    require(start.num_rows() >= 1, "a chain begins behind a row whose feature is known");
    for (const int32_t token : start.tokens) {
      if (token >= 0 && token < head.embedding->outputs) continue;
      throw std::out_of_range("token " + std::to_string(token) + " does not exist");
    }
    require(start.most >= 1 && start.most <= num_levels,
            "a chain must have 1 to " + std::to_string(num_levels) + " tokens");
    require(start.position >= 0, "a position must be at least 0");
    require(start.num_slots() <= workspace.rope.context, "a chain would leave the context");
    require(start.num_slots() <= static_cast<int64_t>(start.pages.size()) * cache.page_size(),
            "a chain has too few pages for its rows");
  }
}

// A pass over the next rows of each chain, each row behind all those before it.
Pass describe(const std::vector<Chain>& chains, int page_size) {
  PassArrays arrays;
  arrays.page_starts.push_back(0);
  arrays.ancestor_starts.push_back(0);
  for (const Chain& chain : chains) {
    const int rows = static_cast<int>(chain.tokens.size());
    arrays.first_rows.push_back(static_cast<int32_t>(arrays.positions.size()));
    arrays.row_counts.push_back(rows);
    arrays.prefix_lengths.push_back(chain.position);
    arrays.kept_counts.push_back(0);
    for (int row = 0; row < rows; ++row) {
      arrays.positions.push_back(chain.position + row);
      for (int ancestor = 0; ancestor <= row; ++ancestor) arrays.ancestors.push_back(ancestor);
      arrays.ancestor_starts.push_back(static_cast<int32_t>(arrays.ancestors.size()));
    }
    const std::vector<int32_t>& pages = chain.start->pages;
    arrays.pages.insert(arrays.pages.end(), pages.begin(), pages.end());
    arrays.page_starts.push_back(static_cast<int32_t>(arrays.pages.size()));
  }
  return Pass(page_size, std::move(arrays));
}

// [rows][F] to [rows][D].
std::vector<float> fuse(const ChainHead& head, const float* features, int rows,
                        Workspace& workspace) {
  const std::lock_guard<std::mutex> guard(workspace.mutex);
  const KernelTable& kernels = workspace.runtime->kernels;
  ThreadPool& pool = *workspace.runtime->pool;
  const PackedMatrix& fc = *head.fc;
  std::vector<float> hidden(static_cast<std::size_t>(rows) * fc.outputs);
  const Activations x{features, workspace.outer.reserve(rows, fc.inputs, fc.activation_planes)};
  pool.run([&](int index, int count) {
    const Worker worker{index, count};
    if (!fc.has_floats()) {
      const Range groups = worker.part(fc.inputs / kGroup);
      kernels.quantize_rows(features, fc.inputs, rows, fc.inputs, x.quantized, groups.begin,
                            groups.end);
    }
    pool.barrier();
    multiply(kernels, fc, x, rows, hidden.data(), fc.outputs, worker.part(fc.num_tiles()));
  });
  if (!head.fc_bias.empty()) {
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] += head.fc_bias[i % fc.outputs];
  }
  return hidden;
}

// The first layer's inputs [rows][2 D] of tokens and what enters beside them; `hidden` becomes the
// residual stream.
std::vector<float> join(const ChainHead& head, const std::vector<Chain>& chains,
                        const KernelTable& kernels, std::vector<float>& hidden) {
  const FloatEnvironment environment;
  const int64_t size = head.hidden_size();
  std::vector<int32_t> tokens;
  for (const Chain& chain : chains) {
    tokens.insert(tokens.end(), chain.tokens.begin(), chain.tokens.end());
  }
  const int rows = static_cast<int>(tokens.size());
  std::vector<float> embedded(hidden.size());
  std::vector<float> inputs(2 * hidden.size());
  kernels.embed(*head.embedding, tokens.data(), rows, embedded.data(), size);
  kernels.rms_norm(embedded.data(), size, head.embedding_norm.data(), head.eps, rows,
                   static_cast<int>(size), inputs.data(), 2 * size);
  kernels.rms_norm(hidden.data(), size, head.feature_norm.data(), head.eps, rows,
                   static_cast<int>(size), inputs.data() + size, 2 * size);
  if (head.norm_before_residual) {
    for (int row = 0; row < rows; ++row) {
      std::copy_n(inputs.data() + (2 * row + 1) * size, size, hidden.data() + row * size);
    }
  }
  return inputs;
}

// Evaluates the chains' next rows; `hidden` [rows][D] becomes their outputs.
void evaluate(const ChainHead& head, const std::vector<Chain>& chains, KvCache& cache,
              Workspace& workspace, std::vector<float>& hidden) {
  const Pass pass = describe(chains, cache.page_size());
  const std::vector<float> inputs = join(head, chains, workspace.runtime->kernels, hidden);
  for (const Layer* layer : head.layers) {
    attention_block(*layer, pass, cache, workspace, hidden.data(),
                    layer == head.layers.front() ? inputs.data() : nullptr);
    mlp_block(*layer, workspace, hidden.data(), pass.num_rows());
  }
}

// Where the results for one token of one chain go.
struct Place {
  int64_t* ids;
  float* logits;
  int64_t* drawn_ids;
  float* drawn_logits;
};

Place place_of(const Chain& chain, const ChainRules& rules, const ChainResults& results) {
  const int64_t place = int64_t{chain.index} * results.num_levels + chain.num_drafted;
  const int64_t top = place * rules.num_top;
  const int64_t drawn = place * rules.num_drawn;
  return {results.ids + top, results.logits + top, results.drawn_ids + drawn,
          results.drawn_logits + drawn};
}

// Writes the best tokens of a row of logits to a place; the first one of a broken row is what breaks
// it, and nothing else is written.
void rank_tokens(const ChainHead& head, const KernelTable& kernels, const float* row, int num_top,
                 const Place& place) {
  const int64_t best = kernels.float_rows.argmax(row, head.num_ids());
  const bool is_sound = std::isfinite(row[best]);
  const Indices indices =
      is_sound ? ranked(kernels.float_rows, row, head.num_ids(), num_top) : Indices{best};
  for (std::size_t rank = 0; rank < indices.size(); ++rank) {
    place.ids[rank] = head.target_ids[static_cast<std::size_t>(indices[rank])];
    place.logits[rank] = row[indices[rank]];
  }
}

// Draws a place's tokens from a row of logits, whose best one is written already and finite.
void draw_tokens(const ChainHead& head, const KernelTable& kernels, const Chain& chain,
                 const float* row, int count, const Place& place) {
  const ScaledRow<float> scores{row, head.num_ids(), place.logits[0], chain.start->temperature};
  NoiseKey key = chain.start->noise;
  key.position += static_cast<uint64_t>(chain.num_drafted);
  std::vector<double> totals(count);
  Indices indices(count);
  Podium podium{totals.data(), indices.data(), count, 0};
  kernels.float_rows.best_with_noise(scores, head.target_ids.data(), key, podium);
  std::fill_n(place.drawn_ids, count, int64_t{-1});
  for (int64_t i = 0; i < podium.size; ++i) {
    place.drawn_ids[i] = head.target_ids[static_cast<std::size_t>(indices[i])];
    place.drawn_logits[i] = row[indices[i]];
  }
}

// How likely a chain's next token is to be kept: its share among the best tokens of the place and
// those drawn there, or where it was drawn the mean of that and 1, since the target would draw it
// too.
double confidence(const Place& place, const ChainRules& rules, double temperature) {
  const double best = place.logits[0];
  const bool is_drawn = temperature > 0.0;
  const auto weight = [&](float logit) {
    return std::exp((double{logit} - best) / (is_drawn ? temperature : 1.0));
  };
  const int64_t* const ids = place.ids;
  const int64_t* const end = ids + rules.num_top;
  double mass = 0.0;
  for (int i = 0; i < rules.num_top; ++i) mass += weight(place.logits[i]);
  if (!is_drawn) return 1.0 / mass;
  for (int i = 0; i < rules.num_drawn && place.drawn_ids[i] >= 0; ++i) {
    if (std::find(ids, end, place.drawn_ids[i]) == end) mass += weight(place.drawn_logits[i]);
  }
  return (1.0 + weight(place.drawn_logits[0]) / mass) / 2.0;
}

// Takes the tokens of a chain's next place; false where the chain ends with it.
bool take(Chain& chain, const Place& place, const ChainRules& rules) {
  ++chain.num_drafted;
  chain.position += static_cast<int32_t>(chain.tokens.size());
  if (!std::isfinite(place.logits[0])) return false;
  const double temperature = chain.start->temperature;
  const int64_t chosen = temperature > 0.0 ? place.drawn_ids[0] : place.ids[0];
  const auto token = static_cast<int32_t>(chosen);
  chain.tokens.assign(1, token);
  chain.reach *= confidence(place, rules, temperature);
  return chain.num_drafted < chain.start->most && chain.reach >= rules.min_confidence &&
         !std::binary_search(rules.end_ids.begin(), rules.end_ids.end(), token);
}

// The best tokens of the chains' next places, where none is drawn: without rows of logits.
void choose_best(const ChainHead& head, const std::vector<Chain>& chains, const float* hidden,
                 const std::vector<int32_t>& last_rows, const ChainRules& rules,
                 Workspace& workspace, const ChainResults& results) {
  const int count = static_cast<int>(chains.size());
  const int num_top = rules.num_top;
  std::vector<int64_t> best(static_cast<std::size_t>(count) * num_top);
  std::vector<float> scores(best.size());
  head_top(*head.head, workspace, hidden, last_rows.data(), count, head.num_ids(), num_top,
           best.data(), scores.data());
  for (int i = 0; i < count; ++i) {
    const Place place = place_of(chains[i], rules, results);
    for (int rank = 0; rank < num_top; ++rank) {
      const std::size_t from = static_cast<std::size_t>(i) * num_top + rank;
      place.ids[rank] = head.target_ids[static_cast<std::size_t>(best[from])];
      place.logits[rank] = scores[from];
    }
  }
}

// The same where some are drawn.
void choose_drawn(const ChainHead& head, const std::vector<Chain>& chains, const float* hidden,
                  const std::vector<int32_t>& last_rows, const ChainRules& rules,
                  Workspace& workspace, const ChainResults& results) {
  const KernelTable& kernels = workspace.runtime->kernels;
  const int count = static_cast<int>(chains.size());
  const int64_t width = head.head->matrix->outputs;
  std::vector<float> rows(static_cast<std::size_t>(count * width));
  head_logits(*head.head, workspace, hidden, last_rows.data(), count, rows.data());
  const FloatEnvironment environment;
  for (int i = 0; i < count; ++i) {
    const Place place = place_of(chains[i], rules, results);
    const float* row = rows.data() + i * width;
    rank_tokens(head, kernels, row, rules.num_top, place);
    if (chains[i].start->temperature > 0.0 && std::isfinite(place.logits[0])) {
      draw_tokens(head, kernels, chains[i], row, rules.num_drawn, place);
    }
  }
}

}  // namespace

void ChainHead::check() const {
  const auto size = static_cast<std::size_t>(hidden_size());
  require(embedding->inputs == hidden_size() && fc->outputs == hidden_size(),
          "embedding, fc and outputs differ in width");
  require(embedding_norm.size() == size && feature_norm.size() == size &&
              (fc_bias.empty() || fc_bias.size() == size),
          "norms and bias must be as wide as the outputs");
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
  for (const int64_t id : target_ids) {
    if (id >= 0 && id < embedding->outputs) continue;
    throw std::out_of_range("target id " + std::to_string(id) + " does not exist");
  }
}

std::vector<int32_t> grow_chains(const ChainHead& head, const std::vector<ChainStart>& starts,
                                 const ChainRules& rules, const float* features, KvCache& cache,
                                 Workspace& workspace, const ChainResults& results) {
  const int num_top = rules.num_top;
  require(1 <= num_top && num_top <= head.num_ids(),
          std::to_string(num_top) + " tokens cannot be chosen from " +
              std::to_string(head.num_ids()));
  check_starts(starts, head, cache, workspace, results.num_levels, rules.num_drawn);
  const int64_t size = head.hidden_size();
  std::vector<int32_t> num_drafted(starts.size());
  std::vector<Chain> chains;
  for (const ChainStart& start : starts) {
    chains.push_back({&start, static_cast<int>(chains.size()), start.tokens, start.position});
  }
  if (chains.empty()) return num_drafted;
  std::vector<float> hidden =
      fuse(head, features, static_cast<int>(total_rows(chains)), workspace);
  const bool is_any_drawn =
      std::any_of(starts.begin(), starts.end(),
                  [](const ChainStart& start) { return start.temperature > 0.0; });
  while (!chains.empty()) {
    const int count = static_cast<int>(chains.size());
    std::vector<int32_t> last_rows;
    for (const Chain& chain : chains) {
      const int32_t end = last_rows.empty() ? 0 : last_rows.back() + 1;
      last_rows.push_back(end + static_cast<int32_t>(chain.tokens.size()) - 1);
    }
    evaluate(head, chains, cache, workspace, hidden);
    const auto choose = is_any_drawn ? choose_drawn : choose_best;
    choose(head, chains, hidden.data(), last_rows, rules, workspace, results);
    std::vector<Chain> growing;
    std::vector<float> outputs;
    for (int i = 0; i < count; ++i) {
      Chain& chain = chains[i];
      const bool goes_on = take(chain, place_of(chain, rules, results), rules);
      num_drafted[chain.index] = chain.num_drafted;
      if (!goes_on) continue;
      const float* output = hidden.data() + last_rows[i] * size;
      outputs.insert(outputs.end(), output, output + size);
      growing.push_back(std::move(chain));
    }
    chains = std::move(growing);
    hidden = std::move(outputs);
  }
  return num_drafted;
}

}  // namespace oneglance
