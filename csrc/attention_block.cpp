// Attention of a layer: see layer.h.
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <string>

#include "layer.h"
#include "require.h"
#include "shared_work.h"

namespace oneglance {
namespace {

// Queries, keys and values of all rows and what attention makes of them.
struct Heads {
  const KernelTable& kernels;
  const Pass& pass;
  const KvCache& cache;
  int layer;
  int num_heads;
  const float* queries;
  int64_t ld_queries;
  float* mixed;  // [R][num_heads * head_dim]
  AttendScratch layout;
  float* scratch;

  int group() const { return num_heads / cache.num_kv_heads(); }
  int64_t mixed_size() const { return static_cast<int64_t>(num_heads) * cache.head_dim(); }

  // Calls function(sequence, kv_head, query_begin, query_end) for this thread's share of queries;
  // a query costs as much as its sequence has slots.
  template <typename Function>
  void for_each_part(Worker worker, Function&& function) const {
    int64_t total = 0;
    for (const PassSequence& sequence : pass.sequences()) total += cost_of(sequence);
    const int64_t low = worker.low(total);
    const int64_t high = worker.high(total);
    int64_t offset = 0;
    for (const PassSequence& sequence : pass.sequences()) {
      const int64_t cost = sequence.num_slots();
      const int queries = sequence.num_rows * group();
      for (int kv_head = 0; kv_head < cache.num_kv_heads(); ++kv_head) {
        const int begin = items_below(low, offset, cost, queries);
        const int end = items_below(high, offset, cost, queries);
        if (begin < end) function(sequence, kv_head, begin, end);
        offset += cost * queries;
      }
    }
  }

  void attend(const PassSequence& sequence, int kv_head, int begin, int end, int thread) const {
    const int64_t first_head = static_cast<int64_t>(kv_head) * group() * cache.head_dim();
    AttendArguments arguments{cache.head(layer, kv_head),
                              sequence.pages,
                              sequence.run_starts,
                              pass.runs(),
                              group(),
                              begin,
                              end,
                              static_cast<float>(1.0 / std::sqrt(double(cache.head_dim()))),
                              queries + sequence.first_row * ld_queries + first_head,
                              mixed + sequence.first_row * mixed_size() + first_head,
                              ld_queries,
                              mixed_size(),
                              layout,
                              OwnParts(layout.size).of(scratch, thread)};
    kernels.attend(arguments);
  }

 private:
  int64_t cost_of(const PassSequence& sequence) const {
    return static_cast<int64_t>(sequence.num_slots()) * sequence.num_rows * num_heads;
  }
};

AttendScratch scratch_for(const Pass& pass, int head_dim) {
  int num_slots = 0;
  for (const PassSequence& sequence : pass.sequences()) {
    num_slots = std::max(num_slots, sequence.num_slots());
  }
  return AttendScratch(head_dim, num_slots);
}

// One attention block: what its threads share.
class AttentionBlock {
 public:
  AttentionBlock(const Layer& layer, const Pass& pass, const KvCache& cache, Workspace& workspace,
                 float* stream, const float* inputs)
      : layer_(layer),
        pass_(pass),
        cache_(cache),
        workspace_(workspace),
        kernels_(workspace.runtime->kernels),
        pool_(*workspace.runtime->pool),
        rows_(pass.num_rows()),
        qkv_size_(static_cast<int64_t>(layer.q_size()) + 2 * layer.kv_size()),
        stream_(stream),
        inputs_(inputs ? inputs : stream),
        heads_{kernels_,  pass,    cache,   layer.index,
               layer.num_heads(),  nullptr, qkv_size_,   nullptr,
               scratch_for(pass, layer.head_dim), nullptr} {
    const int64_t rows = rows_;
    workspace.normed.reserve(rows * layer.input_size());
    workspace.projected.reserve(rows * layer.hidden_size());
    workspace.qkv.reserve(rows * qkv_size_);
    workspace.mixed.reserve(rows * layer.q_size());
    workspace.scratch.reserve(OwnParts(heads_.layout.size).total(pool_.num_threads()));
    const int outer_planes = most_planes({layer.q_proj, layer.k_proj, layer.v_proj});
    const int inner_planes = most_planes({layer.o_proj});
    outer_ = {workspace.normed.data(),
              workspace.outer.reserve(rows, layer.input_size(), outer_planes)};
    inner_ = {workspace.mixed.data(),
              workspace.inner.reserve(rows, layer.q_size(), inner_planes)};
    heads_.queries = workspace.qkv.data();
    heads_.mixed = workspace.mixed.data();
    heads_.scratch = workspace.scratch.data();
  }

  void run() {
    pool_.run([this](int index, int count) {
      const Worker worker{index, count};
      norm_rows(kernels_, inputs_, nullptr, rows_, layer_.input_norm, layer_.eps,
                layer_.input_size(), workspace_.normed.data(), outer_.quantized, worker);
      pool_.barrier();
      project_qkv(worker);
      pool_.barrier();
      finish_heads(worker);
      pool_.barrier();
      mix(worker);
      pool_.barrier();
      add_product(kernels_, *layer_.o_proj, inner_, rows_, workspace_.projected.data(), stream_,
                  worker);
    });
  }

 private:
  // The three matrices are one row of tiles, cut where the bytes to read are halved.
  void project_qkv(Worker worker) const {
    const PackedMatrix* const matrices[] = {layer_.q_proj, layer_.k_proj, layer_.v_proj};
    int64_t total = 0;
    for (const PackedMatrix* matrix : matrices) total += matrix->num_bytes();
    int64_t offset = 0;
    int64_t column = 0;
    for (const PackedMatrix* matrix : matrices) {
      const int tiles = matrix->num_tiles();
      const int begin = items_below(worker.low(total), offset, matrix->tile_bytes, tiles);
      const int end = items_below(worker.high(total), offset, matrix->tile_bytes, tiles);
      multiply(kernels_, *matrix, outer_, rows_, workspace_.qkv.data() + column, qkv_size_,
               {begin, end});
      offset += matrix->num_bytes();
      column += matrix->outputs;
    }
  }

  // Bias, norm and rotation of this thread's heads; keys and values go to the cache.
  void finish_heads(Worker worker) const {
    const int num_heads = layer_.num_heads();
    const int num_kv_heads = layer_.num_kv_heads();
    const Range part = worker.part(num_heads + 2 * num_kv_heads);
    for (int head = part.begin; head < part.end; ++head) {
      float* first = workspace_.qkv.data() + static_cast<int64_t>(head) * layer_.head_dim;
      add_bias(head, first);
      const int kv_head = head - num_heads;
      if (kv_head < 0) {
        norm_and_rotate(layer_.q_norm, first);
      } else if (kv_head < num_kv_heads) {
        norm_and_rotate(layer_.k_norm, first);
        store_rows(kv_head, first, nullptr);
      } else {
        store_rows(kv_head - num_kv_heads, nullptr, first);
      }
    }
  }

  void add_bias(int head, float* first) const {
    if (layer_.qkv_bias.empty()) return;
    const float* bias = layer_.qkv_bias.data() + static_cast<int64_t>(head) * layer_.head_dim;
    for (int row = 0; row < rows_; ++row) {
      float* values = first + row * qkv_size_;
      for (int i = 0; i < layer_.head_dim; ++i) values[i] = values[i] + bias[i];
    }
  }

  void norm_and_rotate(const std::vector<float>& norm, float* first) const {
    if (!norm.empty()) {
      kernels_.rms_norm(first, qkv_size_, norm.data(), layer_.eps, rows_, layer_.head_dim, first,
                        qkv_size_);
    }
    const RopeTables& rope = workspace_.rope;
    kernels_.rope(first, qkv_size_, rows_, 1, layer_.head_dim, rope.cos.data(), rope.sin.data(),
                  pass_.positions());
  }

  void store_rows(int kv_head, const float* keys, const float* values) const {
    for (const PassSequence& sequence : pass_.sequences()) {
      const int64_t offset = sequence.first_row * qkv_size_;
      kernels_.store_kv({cache_.head(layer_.index, kv_head), sequence.pages,
                         sequence.first_slot(), sequence.num_rows, keys ? keys + offset : nullptr,
                         values ? values + offset : nullptr, qkv_size_});
    }
  }

  // Attention of this thread's queries, quantised where that is wanted and heads consist of whole
  // groups; of others all have to be there first.
  void mix(Worker worker) const {
    const bool is_wanted = inner_.quantized.values != nullptr;
    const bool has_whole_groups = layer_.head_dim % kGroup == 0;
    heads_.for_each_part(worker, [&](const PassSequence& sequence, int kv_head, int begin,
                                     int end) {
      heads_.attend(sequence, kv_head, begin, end, worker.index);
      if (is_wanted && has_whole_groups) quantize_queries(sequence, kv_head, begin, end);
    });
    if (!is_wanted || has_whole_groups) return;
    pool_.barrier();
    const int size = layer_.q_size();
    const Range part = worker.part(rows_);
    if (part.begin == part.end) return;
    kernels_.quantize_rows(workspace_.mixed.data() + part.begin * static_cast<int64_t>(size), size,
                           part.end - part.begin, size, from_row(inner_.quantized, part.begin, size), 0,
                           size / kGroup);
  }

  void quantize_queries(const PassSequence& sequence, int kv_head, int begin, int end) const {
    const int size = layer_.q_size();
    const int group = heads_.group();
    const int groups_per_head = layer_.head_dim / kGroup;
    while (begin < end) {
      const int row = begin / group;
      const int next = std::min(end, (row + 1) * group);
      const int head = kv_head * group + begin % group;
      const int64_t in_pass = sequence.first_row + row;
      kernels_.quantize_rows(workspace_.mixed.data() + in_pass * size, size, 1, size,
                             from_row(inner_.quantized, in_pass, size), head * groups_per_head,
                             (head + next - begin) * groups_per_head);
      begin = next;
    }
  }

  const Layer& layer_;
  const Pass& pass_;
  const KvCache& cache_;
  Workspace& workspace_;
  const KernelTable& kernels_;
  ThreadPool& pool_;
  int rows_;
  int64_t qkv_size_;
  float* stream_;
  const float* inputs_;
  Heads heads_;
  Activations outer_{};
  Activations inner_{};
};

}  // namespace

void check_cache(const Pass& pass, const KvCache& cache, int layer, int num_heads) {
  require(pass.page_size() == cache.page_size(), "pass and cache have pages of different sizes");
  if (layer < 0 || layer >= cache.num_layers()) {
    throw std::out_of_range("the cache has no layer " + std::to_string(layer));
  }
  require(num_heads >= 1 && num_heads % cache.num_kv_heads() == 0,
          "the number of heads must be a multiple of the cache's kv heads");
  cache.check_page(pass.max_page());
}

void attention_block(const Layer& layer, const Pass& pass, KvCache& cache, Workspace& workspace,
                     float* stream, const float* inputs) {
  require((inputs != nullptr) == layer.input_norm.empty(),
          "inputs are given to a layer exactly if it has no input norm");
  const std::scoped_lock guard(workspace.mutex, cache.mutex);
  check_cache(pass, cache, layer.index, layer.num_heads());
  require(layer.num_kv_heads() == cache.num_kv_heads() && layer.head_dim == cache.head_dim(),
          "layer and cache have different heads");
  require(2 * workspace.rope.half_dim == layer.head_dim, "the rotary tables fit another head_dim");
  if (pass.max_position() >= workspace.rope.context) {
    throw std::out_of_range("position " + std::to_string(pass.max_position()) +
                            " lies beyond the rotary tables");
  }
  AttentionBlock(layer, pass, cache, workspace, stream, inputs).run();
}

void attend(const Pass& pass, KvCache& cache, int layer, int num_heads, Workspace& workspace,
            const float* queries, float* mixed) {
  const std::scoped_lock guard(workspace.mutex, cache.mutex);
  check_cache(pass, cache, layer, num_heads);
  ThreadPool& pool = *workspace.runtime->pool;
  const AttendScratch layout = scratch_for(pass, cache.head_dim());
  workspace.scratch.reserve(OwnParts(layout.size).total(pool.num_threads()));
  const Heads heads{workspace.runtime->kernels,
                    pass,
                    cache,
                    layer,
                    num_heads,
                    queries,
                    static_cast<int64_t>(num_heads) * cache.head_dim(),
                    mixed,
                    layout,
                    workspace.scratch.data()};
  pool.run([&](int index, int count) {
    const Worker worker{index, count};
    heads.for_each_part(worker, [&](const PassSequence& sequence, int kv_head, int begin, int end) {
      heads.attend(sequence, kv_head, begin, end, index);
    });
  });
}

}  // namespace oneglance
