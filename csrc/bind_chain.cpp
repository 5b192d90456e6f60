// Chains of an EAGLE head in Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "bind_arrays.h"
#include "head_chain.h"

namespace oneglance {
namespace {

// Items of several chains one after another, divided by `starts`.
std::vector<std::vector<int32_t>> divided(const Ints& starts, const Ints& items, int count,
                                          const char* name) {
  const auto ends = to_vector<int32_t>(starts, name);
  const auto all = to_vector<int32_t>(items, name);
  require(static_cast<int>(ends.size()) == count + 1 && ends.front() == 0 &&
              std::is_sorted(ends.begin(), ends.end()) &&
              static_cast<std::size_t>(ends.back()) == all.size(),
          std::string(name) + " must be divided among the chains, from 0 to their number");
  std::vector<std::vector<int32_t>> parts;
  for (int i = 0; i < count; ++i) {
    parts.emplace_back(all.begin() + ends[i], all.begin() + ends[i + 1]);
  }
  return parts;
}

void bind_head(nb::module_& module) {
  nb::class_<ChainHead>(module, "ChainHead", "What an EAGLE-3 head is made of, to draft chains.")
      .def(
          "__init__",
          [](ChainHead* self, const PackedMatrix& embedding, const PackedMatrix& fc,
             const std::optional<Floats>& fc_bias, float eps, const Floats& embedding_norm,
             const Floats& feature_norm, bool norm_before_residual, const nb::tuple& layers,
             const Head& head, const Ints& target_ids) {
            std::vector<const Layer*> in_order;
            for (const nb::handle layer : layers) in_order.push_back(nb::cast<const Layer*>(layer));
            ChainHead parts{&embedding,
                            &fc,
                            to_vector(fc_bias, "fc_bias"),
                            eps,
                            to_vector<float>(embedding_norm, "embedding_norm"),
                            to_vector<float>(feature_norm, "feature_norm"),
                            norm_before_residual,
                            std::move(in_order),
                            &head,
                            {}};
            const auto ids = to_vector<int32_t>(target_ids, "target_ids");
            parts.target_ids.assign(ids.begin(), ids.end());
            parts.check();
            new (self) ChainHead(std::move(parts));
          },
          nb::kw_only(), nb::arg("embedding"), nb::arg("fc"), nb::arg("fc_bias").noconvert().none(),
          nb::arg("eps"), nb::arg("embedding_norm").noconvert(),
          nb::arg("feature_norm").noconvert(), nb::arg("norm_before_residual"), nb::arg("layers"),
          nb::arg("head"), nb::arg("target_ids").noconvert(), nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 3>(), nb::keep_alive<1, 9>(), nb::keep_alive<1, 10>())
      .def_prop_ro("num_ids", &ChainHead::num_ids);
}

}  // namespace

void bind_chain(nb::module_& module) {
  bind_head(module);
  module.def(
      "grow_chains",
      [](const ChainHead& head, const Ints& row_starts, const Ints& tokens, const Ints& positions,
         const Ints& most, const Ints& page_starts, const Ints& pages, const Floats& features,
         KvCache& cache, Workspace& workspace, double min_confidence, const Ints& end_ids,
         const nb::tuple& noises, const IdsOut& ids, const FloatsOut& logits,
         const IdsOut& drawn_ids, const FloatsOut& drawn_logits) {
        require_shape(positions, {-1}, "positions");
        const int count = length_of(positions, 0);
        require_shape(most, {count}, "most");
        auto rows = divided(row_starts, tokens, count, "tokens");
        auto held = divided(page_starts, pages, count, "pages");
        std::vector<ChainStart> starts;
        require(static_cast<int>(noises.size()) == count, "each chain needs its noise");
        for (int i = 0; i < count; ++i) {
          using Noise = std::tuple<double, uint64_t, uint64_t, uint64_t>;
          const auto [temperature, seed, choice, position] = nb::cast<Noise>(noises[i]);
          starts.push_back({std::move(rows[i]), positions.data()[i], most.data()[i],
                            std::move(held[i]), temperature, {seed, choice, position}});
        }
        require_shape(features, {length_of(tokens, 0), head.feature_size()}, "features");
        require_shape(ids, {count, -1, -1}, "ids");
        require_shape(logits, {count, length_of(ids, 1), length_of(ids, 2)}, "logits");
        require_shape(drawn_ids, {count, length_of(ids, 1), -1}, "drawn_ids");
        require_shape(drawn_logits, {count, length_of(ids, 1), length_of(drawn_ids, 2)},
                      "drawn_logits");
        ChainRules rules{min_confidence, to_vector<int32_t>(end_ids, "end_ids"),
                         length_of(ids, 2), length_of(drawn_ids, 2)};
        std::sort(rules.end_ids.begin(), rules.end_ids.end());
        const float* source = features.data();
        const ChainResults results{length_of(ids, 1), ids.data(), logits.data(),
                                   drawn_ids.data(), drawn_logits.data()};
        const nb::gil_scoped_release release;
        return grow_chains(head, starts, rules, source, cache, workspace, results);
      },
      nb::arg("head"), nb::arg("row_starts").noconvert(), nb::arg("tokens").noconvert(),
      nb::arg("positions").noconvert(), nb::arg("most").noconvert(),
      nb::arg("page_starts").noconvert(), nb::arg("pages").noconvert(),
      nb::arg("features").noconvert(), nb::arg("cache"), nb::arg("workspace"),
      nb::arg("min_confidence"), nb::arg("end_ids").noconvert(), nb::arg("noises"),
      nb::arg("ids").noconvert(), nb::arg("logits").noconvert(),
      nb::arg("drawn_ids").noconvert(), nb::arg("drawn_logits").noconvert(),
      "Drafts chains behind rows whose features are known; returns how many tokens each got. The "
      "best tokens of each place and their logits go to ids and logits [chains, places, number "
      "wanted]. Each chain has a noise (temperature, seed, choice, position of its first token): "
      "above temperature 0 its tokens are the best ones with that noise, and they go, with their "
      "logits, to drawn_ids and drawn_logits.");
}

}  // namespace oneglance
