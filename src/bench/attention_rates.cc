#include "bench/attention_rates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "base/aligned_memory.h"
#include "base/memory_ledger.h"
#include "bench/best_time.h"
#include "kernels/arithmetic_version.h"
#include "kvstore/kv_store.h"

namespace octavo::bench {
namespace {

// The default model's heads, and the longest context that the comparison with others measures.
constexpr int32_t kNumKvHeads = 3;
constexpr int32_t kGroupSize = 3;
constexpr int32_t kHeadDim = 64;
constexpr int32_t kBlockSizeTokens = 16;
constexpr int64_t kContext = 4096;
constexpr int64_t kNumChunks = kContext / kernels::kAttentionChunkTokens;
constexpr int64_t kChunkTiles = kernels::kAttentionChunkTokens / kernels::kAttentionTileTokens;
constexpr int64_t kKvWidth = kNumKvHeads * kHeadDim;
constexpr int64_t kQueryWidth = kKvWidth * kGroupSize;
constexpr int64_t kMaxPartialFloats =
    kernels::kMaxAttentionRows * kGroupSize * kernels::PartialFloats(kHeadDim);

std::vector<float> NormalValues(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// The layers that take about `bytes` together.
Result<kvstore::KvLayout> LayoutOf(kernels::KvDtype dtype, size_t bytes) {
  const kvcache::KvCacheSpec one_layer{.num_layers = 1,
                                       .num_kv_heads = kNumKvHeads,
                                       .head_dim = kHeadDim,
                                       .block_size_tokens = kBlockSizeTokens};
  constexpr int64_t kNumBlocks = kContext / kBlockSizeTokens;
  Result<kvstore::KvLayout> layout = kvstore::KvLayout::Create(one_layer, dtype, kNumBlocks);
  if (!layout.ok()) return layout;
  kvcache::KvCacheSpec spec = one_layer;
  spec.num_layers = static_cast<int32_t>(std::max<size_t>(1, bytes / layout->arena_bytes));
  return kvstore::KvLayout::Create(spec, dtype, kNumBlocks);
}

class Passes {
 public:
  Passes(const kernels::AttentionKernels& kernels, kvstore::KvStore store, int num_threads)
      : kernels_(kernels),
        store_(std::move(store)),
        block_table_(static_cast<size_t>(store_.layout().num_blocks)),
        q_(NormalValues(kernels::kMaxAttentionRows * kQueryWidth)),
        next_layer_(static_cast<size_t>(num_threads) * 16) {  // a cache line each
    std::iota(block_table_.begin(), block_table_.end(), 0);
    for (int thread = 0; thread < num_threads; ++thread) {
      memory_.push_back(base::AlignedBuffer::Allocate(static_cast<size_t>(
          (kernels::AttentionScratchFloats(kHeadDim) + 2 * kMaxPartialFloats) * 4)));
    }
    const std::vector<float> values = NormalValues(kContext + kKvWidth);
    for (int32_t layer = 0; layer < store_.layout().spec.num_layers; ++layer) {
      const kernels::PagedKvView view = store_.View(layer, block_table_);
      for (int64_t position = 0; position < kContext; ++position) {
        kernels_.store_kv(view, position, kNumKvHeads, &values[static_cast<size_t>(position)],
                          &values[static_cast<size_t>(kContext - 1 - position)]);
      }
    }
  }

  // Whether there was memory for all threads.
  bool ok() const {
    return std::ranges::all_of(memory_, [](const auto& memory) { return bool{memory}; });
  }

  // This thread's part of the last `num_rows` rows of the context, in its next layer.
  void Attend(int thread, int num_threads, int64_t num_rows) {
    size_t& next = next_layer_[static_cast<size_t>(thread) * 16];
    const auto layer =
        static_cast<int32_t>(next++ % static_cast<size_t>(store_.layout().spec.num_layers));
    const kernels::PagedKvView view = store_.View(layer, block_table_);
    constexpr int64_t kNumItems = kNumKvHeads * kNumChunks;
    float* scratch = memory_[static_cast<size_t>(thread)].As<float>().data();
    float* running = scratch + kernels::AttentionScratchFloats(kHeadDim);
    float* partials = running + kMaxPartialFloats;
    const kernels::QueryRows rows{.q = q_.data(),
                                  .row_stride = kQueryWidth,
                                  .num_rows = num_rows,
                                  .first_position = kContext - num_rows,
                                  .position_step = 1,
                                  .group_size = kGroupSize,
                                  .scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim))};
    int64_t head = -1;
    for (int64_t item = kNumItems * thread / num_threads;
         item < kNumItems * (thread + 1) / num_threads; ++item) {
      const bool begins = std::exchange(head, item / kNumChunks) != item / kNumChunks;
      const int64_t tile = item % kNumChunks * kChunkTiles;
      kernels_.attend_tiles(view, rows, head, {tile, tile + kChunkTiles}, scratch,
                            begins ? running : partials);
      for (int64_t i = 0; !begins && i < num_rows * kGroupSize; ++i) {
        const int64_t offset = i * kernels::PartialFloats(kHeadDim);
        kernels_.fold_partial(running + offset, partials + offset, kHeadDim);
      }
    }
  }

 private:
  const kernels::AttentionKernels& kernels_;
  kvstore::KvStore store_;
  std::vector<uint32_t> block_table_;
  std::vector<float> q_;
  std::vector<size_t> next_layer_;
  std::vector<base::AlignedBuffer> memory_;  // of each thread: scratch, then two sets of partials
};

}  // namespace

Status MeasureAttentionRates(const kernels::AttentionKernels& kernels, base::ThreadPool& pool,
                             kernels::KvDtype dtype, size_t cache_bytes, double seconds,
                             const std::function<void(const KernelRate&)>& on_row) {
  const Result<kvstore::KvLayout> layout = LayoutOf(dtype, cache_bytes);
  if (!layout.ok()) return layout.status();
  base::MemoryLedger ledger;
  Result<kvstore::KvStore> store = kvstore::KvStore::Create(*layout, ledger);
  if (!store.ok()) return store.status();
  Passes passes(kernels, std::move(*store), pool.num_threads());
  if (!passes.ok()) return Status::ResourceExhausted("no memory for the scratch of attention");
  for (const int64_t num_rows : {int64_t{1}, kernels::kMaxAttentionRows}) {
    const double best = BestSeconds(
        pool, seconds, [&](int thread) { passes.Attend(thread, pool.num_threads(), num_rows); });
    KernelRate rate;
    rate.product = "attention";
    rate.format = kvstore::KvDtypeName(dtype);
    rate.num_outputs = kQueryWidth;
    rate.num_inputs = kContext;
    rate.num_rows = num_rows;
    rate.bytes_per_s = static_cast<double>(layout->arena_bytes) / layout->spec.num_layers / best;
    rate.operations_per_s = 4.0 * static_cast<double>(num_rows * kQueryWidth * kContext) / best;
    on_row(rate);
  }
  return Status::Ok();
}

}  // namespace octavo::bench
