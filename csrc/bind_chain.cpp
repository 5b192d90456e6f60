// Chains of an EAGLE head in Python.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bind_arrays.h"
#include "head_chain.h"

namespace oneglance {
namespace {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

std::vector<ChainStart> starts_of(const Ints& tokens, const Ints& positions, const Ints& most,
                                  const Doubles& reaches, const Ints& page_starts,
                                  const Ints& pages) {
  require_shape(tokens, {-1}, "tokens");
  const int count = length_of(tokens, 0);
  require_shape(positions, {count}, "positions");
  require_shape(most, {count}, "most");
  require_shape(reaches, {count}, "reaches");
  const auto ends = to_vector<int32_t>(page_starts, "page_starts");
  const auto held = to_vector<int32_t>(pages, "pages");
  require(static_cast<int>(ends.size()) == count + 1 && ends.front() == 0 &&
              std::is_sorted(ends.begin(), ends.end()) &&
              static_cast<std::size_t>(ends.back()) == held.size(),
          "page_starts must ascend from 0 to the number of pages, one for each chain and one more");
  std::vector<ChainStart> starts;
  for (int i = 0; i < count; ++i) {
    starts.push_back({tokens.data()[i],
                      positions.data()[i],
                      most.data()[i],
                      reaches.data()[i],
                      {held.begin() + ends[i], held.begin() + ends[i + 1]}});
  }
  return starts;
}

}  // namespace

void bind_chain(nb::module_& module) {
  nb::class_<ChainHead>(module, "ChainHead", "What an EAGLE-3 head is made of, to draft chains.")
      .def(
          "__init__",
          [](ChainHead* self, const PackedMatrix& embedding, float eps,
             const Floats& embedding_norm, const Floats& feature_norm, bool norm_before_residual,
             const nb::tuple& layers, const Head& head, const Ints& target_ids) {
            std::vector<const Layer*> in_order;
            for (const nb::handle layer : layers) in_order.push_back(nb::cast<const Layer*>(layer));
            ChainHead parts{&embedding,
                            eps,
                            to_vector<float>(embedding_norm, "embedding_norm"),
                            to_vector<float>(feature_norm, "feature_norm"),
                            norm_before_residual,
                            std::move(in_order),
                            &head,
                            to_vector<int32_t>(target_ids, "target_ids")};
            parts.check();
            new (self) ChainHead(std::move(parts));
          },
          nb::kw_only(), nb::arg("embedding"), nb::arg("eps"),
          nb::arg("embedding_norm").noconvert(), nb::arg("feature_norm").noconvert(),
          nb::arg("norm_before_residual"), nb::arg("layers"), nb::arg("head"),
          nb::arg("target_ids").noconvert(), nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>())
      .def_prop_ro("num_ids", &ChainHead::num_ids);
  module.def(
      "grow_chains",
      [](const ChainHead& head, const Ints& tokens, const Ints& positions, const Ints& most,
         const Doubles& reaches, const Ints& page_starts, const Ints& pages, const Floats& hidden,
         KvCache& cache, Workspace& workspace, double min_confidence, const Ints& end_ids,
         const IdsOut& ids, const FloatsOut& logits) {
        const auto starts = starts_of(tokens, positions, most, reaches, page_starts, pages);
        const int count = static_cast<int>(starts.size());
        require_shape(hidden, {count, head.hidden_size()}, "hidden");
        require_shape(ids, {count, -1, -1}, "ids");
        require_shape(logits, {count, length_of(ids, 1), length_of(ids, 2)}, "logits");
        ChainRules rules{min_confidence, to_vector<int32_t>(end_ids, "end_ids"),
                         length_of(ids, 2)};
        std::sort(rules.end_ids.begin(), rules.end_ids.end());
        const int most_levels = length_of(ids, 1);
        const float* source = hidden.data();
        int64_t* best = ids.data();
        float* scores = logits.data();
        const nb::gil_scoped_release release;
        return grow_chains(head, starts, rules, source, cache, workspace, most_levels, best,
                           scores);
      },
      nb::arg("head"), nb::arg("tokens").noconvert(), nb::arg("positions").noconvert(),
      nb::arg("most").noconvert(), nb::arg("reaches").noconvert(),
      nb::arg("page_starts").noconvert(), nb::arg("pages").noconvert(),
      nb::arg("hidden").noconvert(), nb::arg("cache"), nb::arg("workspace"),
      nb::arg("min_confidence"), nb::arg("end_ids").noconvert(), nb::arg("ids").noconvert(),
      nb::arg("logits").noconvert(),
      "Grows chains of draft tokens and returns how many levels each got; the best tokens of each "
      "level and their logits go to ids and logits [chains, levels, number wanted].");
}

}  // namespace oneglance
