#include "layer.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "require.h"
#include "shared_work.h"

namespace oneglance {
namespace {

void require_vector(const std::vector<float>& vector, int64_t size, bool may_be_empty,
                    const char* name) {
  const bool is_valid = (may_be_empty && vector.empty()) ||
                        static_cast<int64_t>(vector.size()) == size;
  require(is_valid, std::string(name) + " has " + std::to_string(vector.size()) +
                        " elements instead of " + std::to_string(size));
}

void require_matrix(const PackedMatrix& matrix, int64_t outputs, int64_t inputs,
                    const char* name) {
  require(matrix.outputs == outputs && matrix.inputs == inputs,
          std::string(name) + " is [" + std::to_string(matrix.outputs) + ", " +
              std::to_string(matrix.inputs) + "] instead of [" + std::to_string(outputs) + ", " +
              std::to_string(inputs) + "]");
}

}  // namespace

void norm_rows(const KernelTable& kernels, const float* stream, const int32_t* rows, int num_rows,
               const std::vector<float>& weight, float eps, int size, float* normed,
               QuantizedRows out, Worker worker) {
  const Range part = worker.part(num_rows);
  for (int64_t row = part.begin; row < part.end; ++row) {
    const int64_t source = rows ? rows[row] : row;
    if (weight.empty()) {
      std::copy_n(stream + source * size, size, normed + row * size);
    } else {
      kernels.rms_norm(stream + source * size, size, weight.data(), eps, 1, size,
                       normed + row * size, size);
    }
    if (out.values == nullptr) continue;
    kernels.quantize_rows(normed + row * size, size, 1, size, from_row(out, row, size), 0,
                          size / kGroup);
  }
}

void add_product(const KernelTable& kernels, const PackedMatrix& matrix, const Activations& x,
                 int rows, float* product, float* stream, Worker worker) {
  const Range tiles = worker.part(matrix.num_tiles());
  if (tiles.begin == tiles.end) return;
  const int64_t size = matrix.outputs;
  multiply(kernels, matrix, x, rows, product, size, tiles);
  const int64_t begin = static_cast<int64_t>(tiles.begin) * kTile;
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(tiles.end) * kTile, size);
  for (int row = 0; row < rows; ++row) {
    const float* source = product + row * size;
    float* target = stream + row * size;
    for (int64_t i = begin; i < end; ++i) target[i] = target[i] + source[i];
  }
}

void Layer::check() const {
  require(index >= 0, "index must be at least 0");
  require(head_dim >= kStripLanes && head_dim % kStripLanes == 0,
          "head_dim must be a multiple of 16");
  require(q_size() % head_dim == 0 && kv_size() % head_dim == 0,
          "queries and keys must consist of whole heads");
  require(num_kv_heads() >= 1 && num_heads() % num_kv_heads() == 0,
          "heads must be a multiple of kv heads");
  const int inputs = input_norm.empty() ? input_size() : hidden_size();
  require_matrix(*q_proj, q_size(), inputs, "q_proj");
  require_matrix(*k_proj, kv_size(), inputs, "k_proj");
  require_matrix(*v_proj, kv_size(), inputs, "v_proj");
  require_matrix(*o_proj, hidden_size(), q_size(), "o_proj");
  require_matrix(*gate_proj, intermediate_size(), hidden_size(), "gate_proj");
  require_matrix(*up_proj, intermediate_size(), hidden_size(), "up_proj");
  require_matrix(*down_proj, hidden_size(), intermediate_size(), "down_proj");
  require_vector(input_norm, hidden_size(), true, "input_norm");
  require_vector(post_attention_norm, hidden_size(), false, "post_attention_norm");
  require_vector(qkv_bias, q_size() + 2 * static_cast<int64_t>(kv_size()), true, "qkv_bias");
  require_vector(q_norm, head_dim, true, "q_norm");
  require_vector(k_norm, head_dim, true, "k_norm");
}

void mlp_block(const Layer& layer, Workspace& workspace, float* stream, int rows) {
  const std::lock_guard<std::mutex> guard(workspace.mutex);
  const KernelTable& kernels = workspace.runtime->kernels;
  ThreadPool& pool = *workspace.runtime->pool;
  const int hidden = layer.hidden_size();
  const int inner_size = layer.intermediate_size();
  workspace.normed.reserve(static_cast<int64_t>(rows) * hidden);
  workspace.projected.reserve(static_cast<int64_t>(rows) * hidden);
  workspace.gate.reserve(static_cast<int64_t>(rows) * inner_size);
  workspace.up.reserve(static_cast<int64_t>(rows) * inner_size);
  float* normed = workspace.normed.data();
  float* gate = workspace.gate.data();
  float* up = workspace.up.data();
  const int outer_planes = most_planes({layer.gate_proj, layer.up_proj});
  const int inner_planes = most_planes({layer.down_proj});
  const Activations outer{normed, workspace.outer.reserve(rows, hidden, outer_planes)};
  const Activations inner{gate, workspace.inner.reserve(rows, inner_size, inner_planes)};
  pool.run([&](int index, int count) {
    const Worker worker{index, count};
    norm_rows(kernels, stream, nullptr, rows, layer.post_attention_norm, layer.eps, hidden, normed,
              outer.quantized, worker);
    pool.barrier();
    // A tile of outputs is a group of the next matrix's inputs, so no thread waits in between.
    const Range tiles = worker.part(layer.gate_proj->num_tiles());
    multiply(kernels, *layer.gate_proj, outer, rows, gate, inner_size, tiles);
    multiply(kernels, *layer.up_proj, outer, rows, up, inner_size, tiles);
    kernels.swiglu(gate, up, inner_size, rows, tiles.begin * kTile, tiles.end * kTile, gate,
                   inner_size);
    if (inner_planes > 0) {
      kernels.quantize_rows(gate, inner_size, rows, inner_size, inner.quantized, tiles.begin,
                            tiles.end);
    }
    pool.barrier();
    add_product(kernels, *layer.down_proj, inner, rows, workspace.projected.data(), stream,
                worker);
  });
}

}  // namespace oneglance
