// Cache, passes and the operations of a layer in Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bind_arrays.h"
#include "half.h"
#include "layer.h"

namespace oneglance {
namespace {

// Keys and values of one page as float32, [kv_heads, page_size, head_dim] each.
template <typename Element, typename ToFloat>
void read_page(const KvCache& cache, int layer, int page, ToFloat to_float, float* keys,
               float* values) {
  for (int kv_head = 0; kv_head < cache.num_kv_heads(); ++kv_head) {
    const KvHead head = cache.head(layer, kv_head);
    for (int slot = 0; slot < cache.page_size(); ++slot) {
      for (int d = 0; d < cache.head_dim(); ++d) {
        *keys++ = to_float(head.keys<const Element>(page)[head.key_index(slot, d)]);
        *values++ = to_float(head.values<const Element>(
            page)[head.value_index(slot, d / kStripLanes) + d % kStripLanes]);
      }
    }
  }
}

std::pair<NewFloats, NewFloats> read_cache(KvCache& cache, int layer, int page) {
  const std::lock_guard<std::mutex> guard(cache.mutex);
  cache.check_page(page);
  if (layer < 0 || layer >= cache.num_layers()) throw std::out_of_range("no such layer");
  const auto make = [&] {
    return empty({static_cast<std::size_t>(cache.num_kv_heads()),
                  static_cast<std::size_t>(cache.page_size()),
                  static_cast<std::size_t>(cache.head_dim())});
  };
  auto result = std::make_pair(make(), make());
  if (cache.is_half()) {
    read_page<uint16_t>(cache, layer, page, half_to_float, result.first.data(),
                        result.second.data());
  } else {
    read_page<float>(
        cache, layer, page, [](float value) { return value; }, result.first.data(),
        result.second.data());
  }
  return result;
}

void bind_cache(nb::module_& module) {
  nb::class_<KvCache>(module, "KvCache", "The pages of keys and values of all layers.")
      .def(nb::init<int, int, int, int, bool>(), nb::arg("num_layers"), nb::arg("num_kv_heads"),
           nb::arg("head_dim"), nb::arg("page_size"), nb::arg("is_half"))
      .def("grow", &KvCache::grow, nb::arg("num_pages"),
           "Makes pages until there are at least so many.",
           nb::call_guard<nb::gil_scoped_release>())
      .def("copy_page", &KvCache::copy_page, nb::arg("source"), nb::arg("target"),
           "Copies all slots of a page, in all layers.", nb::call_guard<nb::gil_scoped_release>())
      .def(
          "gather",
          [](KvCache& cache, const Ints& pages, const Ints& from_slots, const Ints& to_slots) {
            const auto held = to_vector<int32_t>(pages, "pages");
            const auto sources = to_vector<int32_t>(from_slots, "from_slots");
            const auto targets = to_vector<int32_t>(to_slots, "to_slots");
            const nb::gil_scoped_release release;
            cache.gather(held, sources, targets);
          },
          nb::arg("pages").noconvert(), nb::arg("from_slots").noconvert(),
          nb::arg("to_slots").noconvert(),
          "Moves slots of one sequence, in all layers; all are read before any is written.")
      .def("read", &read_cache, nb::arg("layer"), nb::arg("page"),
           "Keys and values of a page, [kv_heads, page_size, head_dim] float32 each; for tests.")
      .def_prop_ro("num_pages", &KvCache::num_pages)
      .def_prop_ro("page_bytes", &KvCache::page_bytes);
}

void bind_pass(nb::module_& module) {
  nb::class_<Pass>(module, "Pass", "Rows of trees that hang off the prefixes of sequences.")
      .def(
          "__init__",
          [](Pass* self, int page_size, const Ints& positions, const Ints& first_rows,
             const Ints& row_counts, const Ints& prefix_lengths, const Ints& kept_counts,
             const Ints& page_starts, const Ints& pages, const Ints& ancestor_starts,
             const Ints& ancestors) {
            new (self) Pass(page_size, {to_vector<int32_t>(positions, "positions"),
                                        to_vector<int32_t>(first_rows, "first_rows"),
                                        to_vector<int32_t>(row_counts, "row_counts"),
                                        to_vector<int32_t>(prefix_lengths, "prefix_lengths"),
                                        to_vector<int32_t>(kept_counts, "kept_counts"),
                                        to_vector<int32_t>(page_starts, "page_starts"),
                                        to_vector<int32_t>(pages, "pages"),
                                        to_vector<int32_t>(ancestor_starts, "ancestor_starts"),
                                        to_vector<int32_t>(ancestors, "ancestors")});
          },
          nb::arg("page_size"), nb::arg("positions").noconvert(),
          nb::arg("first_rows").noconvert(), nb::arg("row_counts").noconvert(),
          nb::arg("prefix_lengths").noconvert(), nb::arg("kept_counts").noconvert(),
          nb::arg("page_starts").noconvert(), nb::arg("pages").noconvert(),
          nb::arg("ancestor_starts").noconvert(), nb::arg("ancestors").noconvert())
      .def_prop_ro("num_rows", &Pass::num_rows);
}

void bind_model_parts(nb::module_& module) {
  nb::class_<Workspace>(module, "Workspace", "Buffers that passes share, with what they run on.")
      .def(
          "__init__",
          [](Workspace* self, const Runtime& runtime, const Floats& cos, const Floats& sin) {
            new (self) Workspace(runtime, rope_tables(cos, sin));
          },
          nb::arg("runtime"), nb::arg("cos").noconvert(), nb::arg("sin").noconvert(),
          nb::keep_alive<1, 2>(), "cos and sin are [context, head_dim / 2].");
  nb::class_<Layer>(module, "Layer", "One decoder layer; qkv_bias is that of q, k and v in a row.")
      .def(
          "__init__",
          [](Layer* self, int index, int head_dim, float eps,
             const std::optional<Floats>& input_norm,
             const PackedMatrix& q_proj, const PackedMatrix& k_proj, const PackedMatrix& v_proj,
             const PackedMatrix& o_proj, const Floats& post_attention_norm,
             const PackedMatrix& gate_proj, const PackedMatrix& up_proj,
             const PackedMatrix& down_proj, const std::optional<Floats>& qkv_bias,
             const std::optional<Floats>& q_norm, const std::optional<Floats>& k_norm) {
            Layer layer{index,      head_dim,
                        eps,        to_vector(input_norm, "input_norm"),
                        &q_proj,    &k_proj,
                        &v_proj,    &o_proj,
                        to_vector<float>(post_attention_norm, "post_attention_norm"),
                        &gate_proj, &up_proj,
                        &down_proj, to_vector(qkv_bias, "qkv_bias"),
                        to_vector(q_norm, "q_norm"), to_vector(k_norm, "k_norm")};
            layer.check();
            new (self) Layer(std::move(layer));
          },
          nb::kw_only(), nb::arg("index"), nb::arg("head_dim"), nb::arg("eps"),
          nb::arg("input_norm").noconvert().none(), nb::arg("q_proj"), nb::arg("k_proj"),
          nb::arg("v_proj"), nb::arg("o_proj"), nb::arg("post_attention_norm").noconvert(),
          nb::arg("gate_proj"), nb::arg("up_proj"), nb::arg("down_proj"),
          nb::arg("qkv_bias").noconvert() = nb::none(), nb::arg("q_norm").noconvert() = nb::none(),
          nb::arg("k_norm").noconvert() = nb::none(), nb::keep_alive<1, 6>(),
          nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>(), nb::keep_alive<1, 9>(),
          nb::keep_alive<1, 11>(), nb::keep_alive<1, 12>(), nb::keep_alive<1, 13>());
  nb::class_<Head>(module, "Head", "The final norm and the output matrix.")
      .def(
          "__init__",
          [](Head* self, const std::optional<Floats>& norm, const PackedMatrix& matrix,
             float eps) {
            if (norm) require_shape(*norm, {matrix.inputs}, "norm");
            new (self) Head{eps, to_vector(norm, "norm"), &matrix};
          },
          nb::kw_only(), nb::arg("norm").noconvert().none(), nb::arg("matrix"), nb::arg("eps"),
          nb::keep_alive<1, 3>());
}

void check_rows(const std::vector<int32_t>& rows, const Floats& stream) {
  for (const int32_t row : rows) {
    if (row >= 0 && row < length_of(stream, 0)) continue;
    throw std::out_of_range("row " + std::to_string(row) + " does not exist");
  }
}

void bind_blocks(nb::module_& module) {
  module.def(
      "attention_block",
      [](const Layer& layer, const Pass& pass, KvCache& cache, Workspace& workspace,
         const FloatsOut& stream, const std::optional<Floats>& inputs) {
        require_shape(stream, {pass.num_rows(), layer.hidden_size()}, "stream");
        if (inputs) require_shape(*inputs, {pass.num_rows(), layer.input_size()}, "inputs");
        float* data = stream.data();
        const float* given = inputs ? inputs->data() : nullptr;
        const nb::gil_scoped_release release;
        attention_block(layer, pass, cache, workspace, data, given);
      },
      nb::arg("layer"), nb::arg("pass_"), nb::arg("cache"), nb::arg("workspace"),
      nb::arg("stream").noconvert(), nb::arg("inputs").noconvert() = nb::none(),
      "Adds o_proj(attention(norm(stream))) to the stream [rows, hidden], in place, and writes "
      "the rows' keys and values to the cache. A layer without an input norm makes queries, keys "
      "and values of `inputs` instead.");
  module.def(
      "mlp_block",
      [](const Layer& layer, Workspace& workspace, const FloatsOut& stream) {
        require_shape(stream, {-1, layer.hidden_size()}, "stream");
        const int rows = length_of(stream, 0);
        float* data = stream.data();
        const nb::gil_scoped_release release;
        mlp_block(layer, workspace, data, rows);
      },
      nb::arg("layer"), nb::arg("workspace"), nb::arg("stream").noconvert(),
      "Adds down(silu(gate(norm(stream))) * up(norm(stream))) to the stream, in place.");
}

void bound_head(const Head& head, Workspace& workspace, const Floats& stream, const Ints& rows,
                const FloatsOut& logits, const RowSummaries& summaries) {
  require_shape(stream, {-1, head.matrix->inputs}, "stream");
  const std::vector<int32_t> wanted = to_vector<int32_t>(rows, "rows");
  const int count = static_cast<int>(wanted.size());
  require_shape(logits, {count, head.matrix->outputs}, "logits");
  check_rows(wanted, stream);
  const float* source = stream.data();
  float* target = logits.data();
  const nb::gil_scoped_release release;
  head_logits(head, workspace, source, wanted.data(), count, target, summaries);
}

void bind_head(nb::module_& module) {
  module.def(
      "head",
      [](const Head& head, Workspace& workspace, const Floats& stream, const Ints& rows,
         const FloatsOut& logits) {
        bound_head(head, workspace, stream, rows, logits, {});
      },
      nb::arg("head"), nb::arg("workspace"), nb::arg("stream").noconvert(),
      nb::arg("rows").noconvert(), nb::arg("logits").noconvert(),
      "Writes the logits [len(rows), vocabulary] of the wanted rows of the stream.");
  module.def(
      "head_summarized",
      [](const Head& head, Workspace& workspace, const Floats& stream, const Ints& rows,
         const FloatsOut& logits, int num_ids, const IdsOut& best,
         const DoublesOut& log_normalizers) {
        require(1 <= num_ids && num_ids <= head.matrix->outputs,
                "num_ids must be 1 to " + std::to_string(head.matrix->outputs));
        require_shape(rows, {-1}, "rows");
        require_shape(best, {length_of(rows, 0)}, "best");
        require_shape(log_normalizers, {length_of(rows, 0)}, "log_normalizers");
        bound_head(head, workspace, stream, rows, logits,
                   {num_ids, best.data(), log_normalizers.data()});
      },
      nb::arg("head"), nb::arg("workspace"), nb::arg("stream").noconvert(),
      nb::arg("rows").noconvert(), nb::arg("logits").noconvert(), nb::arg("num_ids"),
      nb::arg("best").noconvert(), nb::arg("log_normalizers").noconvert(),
      "The same and, of the first num_ids logits of each row, the argmax and the log of the sum "
      "of exponentials, [len(rows)] each, as `Rows` defines them.");
  module.def(
      "head_top",
      [](const Head& head, Workspace& workspace, const Floats& stream, const Ints& rows,
         int num_ids, const IdsOut& ids, const FloatsOut& logits) {
        require_shape(stream, {-1, head.matrix->inputs}, "stream");
        const std::vector<int32_t> wanted = to_vector<int32_t>(rows, "rows");
        const int count = static_cast<int>(wanted.size());
        require_shape(ids, {count, -1}, "ids");
        const int num_top = length_of(ids, 1);
        require_shape(logits, {count, num_top}, "logits");
        require(1 <= num_top && num_top <= num_ids && num_ids <= head.matrix->outputs,
                std::to_string(num_top) + " of " + std::to_string(num_ids) +
                    " tokens cannot be chosen from a vocabulary of " +
                    std::to_string(head.matrix->outputs));
        check_rows(wanted, stream);
        const float* source = stream.data();
        int64_t* best = ids.data();
        float* target = logits.data();
        const nb::gil_scoped_release release;
        head_top(head, workspace, source, wanted.data(), count, num_ids, num_top, best, target);
      },
      nb::arg("head"), nb::arg("workspace"), nb::arg("stream").noconvert(),
      nb::arg("rows").noconvert(), nb::arg("num_ids"), nb::arg("ids").noconvert(),
      nb::arg("logits").noconvert(),
      "Writes the best of the first num_ids tokens, best first, and their logits, [len(rows), "
      "number wanted] each; equal ones by id, NaN before every number.");
}

}  // namespace

void bind_layer(nb::module_& module) {
  bind_cache(module);
  bind_pass(module);
  bind_model_parts(module);
  bind_blocks(module);
  bind_head(module);
  bind_kernels(module);
}

}  // namespace oneglance
