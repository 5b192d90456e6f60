// The suffix tree. Its calls take microseconds, so that the interpreter's lock is kept, which is
// what guards the tree, too.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

#include "bindings.h"
#include "suffix_draft.h"
#include "suffix_tree.h"

namespace oneglance {
namespace {

using Tokens = std::vector<int32_t>;

SuffixDraft draft_after(SuffixTree& tree, int32_t sequence, const DraftLimits& limits) {
  return best_draft(tree, tree.matches_after(sequence), true, limits);
}

SuffixDraft draft_of(SuffixTree& tree, const Tokens& text, const DraftLimits& limits) {
  return best_draft(tree, tree.matches_of(text), false, limits);
}

void bind_draft(nb::module_& module) {
  nb::class_<DraftLimits>(module, "DraftLimits", "How much a suffix tree may draft.")
      .def(
          "__init__",
          [](DraftLimits* limits, int max_tokens, int max_nodes, double factor, double offset,
             double min_prob, const Tokens& ends) {
            new (limits) DraftLimits{max_tokens, max_nodes, factor, offset, min_prob, ends};
          },
          nb::arg("max_tokens"), nb::arg("max_nodes") = -1, nb::arg("factor") = 1.0,
          nb::arg("offset") = 0.0, nb::arg("min_prob") = 0.1, nb::arg("ends") = Tokens());
  nb::class_<SuffixDraft>(module, "SuffixDraft", "What a suffix tree says will come next.")
      .def_ro("tokens", &SuffixDraft::tokens)
      .def_ro("parents", &SuffixDraft::parents)
      .def_ro("probs", &SuffixDraft::probs)
      .def_ro("score", &SuffixDraft::score)
      .def_ro("match_length", &SuffixDraft::match_length);
}

}  // namespace

void bind_suffix(nb::module_& module) {
  bind_draft(module);
  const auto sequence = nb::arg("sequence");
  nb::class_<SuffixTree>(module, "SuffixTree",
                         "A counted suffix tree over sequences of token ids.")
      .def(nb::init<int>(), nb::arg("max_depth") = 64)
      .def_prop_ro("max_depth", &SuffixTree::max_depth)
      .def_prop_ro("num_tokens", &SuffixTree::num_tokens)
      .def_prop_ro("num_nodes", &SuffixTree::num_nodes)
      .def_prop_ro("num_bytes", &SuffixTree::num_bytes)
      .def("start", &SuffixTree::start, "Begins a sequence; returns its number.")
      .def("append", &SuffixTree::append, sequence, nb::arg("tokens"),
           "Adds tokens at the end of a sequence.")
      .def("remove", &SuffixTree::remove, sequence,
           "Takes a sequence out again; cheapest in the order in which they began.")
      .def("count", nb::overload_cast<const Tokens&>(&SuffixTree::count, nb::const_),
           nb::arg("tokens"), "How often these tokens occurred, one after another.")
      .def("draft_after", &draft_after, sequence, nb::arg("limits"),
           "What may come after a sequence.")
      .def("draft_of", &draft_of, nb::arg("text"), nb::arg("limits"),
           "What may come after a text that is not in the tree.");
}

}  // namespace oneglance
