// The final norm and the output matrix: see layer.h.
#include <algorithm>
#include <mutex>
#include <vector>

#include "best_tokens.h"
#include "layer.h"
#include "rows.h"
#include "shared_work.h"

namespace oneglance {
namespace {

// Tiles whose logits are looked at together: they stay in the cache, and rows of activations are
// laid out for the product once for all of them.
constexpr int kScannedTiles = 8;
constexpr int kScannedLogits = kScannedTiles * kTile;

// The wanted rows, normalised as the matrix takes them.
Activations reserve_normed(const Head& head, Workspace& workspace, int count) {
  const int hidden = head.matrix->inputs;
  workspace.normed.reserve(static_cast<int64_t>(count) * hidden);
  return {workspace.normed.data(),
          workspace.outer.reserve(count, hidden, most_planes({head.matrix}))};
}

void norm_wanted(const Head& head, Workspace& workspace, const float* stream,
                 const int32_t* wanted, int count, const Activations& x, Worker worker) {
  norm_rows(workspace.runtime->kernels, stream, wanted, count, head.norm, head.eps,
            head.matrix->inputs, workspace.normed.data(), x.quantized, worker);
}

// The better of two indices into a row, the first of which is the lower one; -1 is none.
int64_t better(const float* row, int64_t low, int64_t high) {
  if (low < 0 || high < 0) return std::max(low, high);
  if (row[low] != row[low]) return low;
  return row[high] > row[low] || row[high] != row[high] ? high : low;
}

// Summaries of rows whose logits the threads have computed, each for `tiles` of its own. `found` has
// room for an index for each row and thread.
void summarize(const KernelTable& kernels, ThreadPool& pool, Worker worker, Range tiles,
               const float* logits, int64_t width, int count, const RowSummaries& summaries,
               int64_t* found) {
  const int64_t begin = int64_t{tiles.begin} * kTile;
  const int64_t end = std::min<int64_t>(int64_t{tiles.end} * kTile, summaries.num_ids);
  for (int row = 0; row < count; ++row) {
    const float* values = logits + row * width;
    found[row * worker.count + worker.index] =
        begin < end ? begin + kernels.float_rows.argmax(values + begin, end - begin) : -1;
  }
  pool.barrier();
  // A sum has one order, so that a row is summed by one thread.
  for (int row = worker.index; row < count; row += worker.count) {
    const float* values = logits + row * width;
    int64_t best = -1;
    for (int i = 0; i < worker.count; ++i) {
      best = better(values, best, found[row * worker.count + i]);
    }
    summaries.best[row] = best;
    summaries.log_normalizers[row] = log_normalizer(kernels, values, summaries.num_ids, best);
  }
}

}  // namespace

void head_logits(const Head& head, Workspace& workspace, const float* stream,
                 const int32_t* wanted, int count, float* logits, RowSummaries summaries) {
  if (count == 0) return;
  const std::lock_guard<std::mutex> guard(workspace.mutex);
  ThreadPool& pool = *workspace.runtime->pool;
  const KernelTable& kernels = workspace.runtime->kernels;
  const Activations x = reserve_normed(head, workspace, count);
  const int64_t width = head.matrix->outputs;
  std::vector<int64_t> found(static_cast<std::size_t>(pool.num_threads()) * count);
  pool.run([&](int index, int num_threads) {
    const Worker worker{index, num_threads};
    norm_wanted(head, workspace, stream, wanted, count, x, worker);
    pool.barrier();
    const Range tiles = worker.part(head.matrix->num_tiles());
    multiply(kernels, *head.matrix, x, count, logits, width, tiles);
    if (summaries.num_ids == 0) return;
    summarize(kernels, pool, worker, tiles, logits, width, count, summaries, found.data());
  });
}

void head_top(const Head& head, Workspace& workspace, const float* stream, const int32_t* wanted,
              int count, int num_ids, int num_top, int64_t* ids, float* logits) {
  if (count == 0) return;
  const std::lock_guard<std::mutex> guard(workspace.mutex);
  ThreadPool& pool = *workspace.runtime->pool;
  const Activations x = reserve_normed(head, workspace, count);
  PackedMatrix matrix = *head.matrix;
  matrix.outputs = num_ids;
  const OwnParts parts(int64_t{count} * kScannedLogits);
  workspace.scratch.reserve(parts.total(pool.num_threads()));
  std::vector<BestTokens> best(static_cast<size_t>(pool.num_threads()) * count,
                               BestTokens(num_top));
  pool.run([&](int index, int num_threads) {
    const Worker worker{index, num_threads};
    norm_wanted(head, workspace, stream, wanted, count, x, worker);
    pool.barrier();
    float* part = parts.of(workspace.scratch.data(), index);
    const Range tiles = worker.part(matrix.num_tiles());
    for (int tile = tiles.begin; tile < tiles.end; tile += kScannedTiles) {
      const int end = std::min(tile + kScannedTiles, tiles.end);
      const PackedMatrix scanned = matrix.tiles(tile, end);
      multiply(workspace.runtime->kernels, scanned, x, count, part, kScannedLogits,
               {0, end - tile});
      for (int row = 0; row < count; ++row) {
        best[int64_t{index} * count + row].offer(part + int64_t{row} * kScannedLogits,
                                                 scanned.outputs, tile * kTile);
      }
    }
  });
  for (int row = 0; row < count; ++row) {
    BestTokens& all = best[row];
    for (int thread = 1; thread < pool.num_threads(); ++thread) {
      all.offer(best[int64_t{thread} * count + row]);
    }
    all.write(ids + int64_t{row} * num_top, logits + int64_t{row} * num_top);
  }
}

}  // namespace oneglance
