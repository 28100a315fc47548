// Attention of one layer in SmolLM2-135M's geometry (3 kv heads, groups of 3, head_dim 64, FP16,
// blocks of 16), for each kernel table: decode of one token at several contexts with blocks in
// order or scattered, and prefill of 512 tokens.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_memory.h"
#include "kernels/arithmetic_version.h"
#include "kernels/kernel_table.h"

namespace octavo::kernels {
namespace {

constexpr int64_t kKvHeads = 3;
constexpr int32_t kGroupSize = 3;
constexpr int32_t kHeadDim = 64;
constexpr int32_t kBlockSize = 16;
constexpr int64_t kChunkTiles = kAttentionChunkTokens / kAttentionTileTokens;
constexpr int64_t kHeads = kKvHeads * kGroupSize;
constexpr size_t kHalfBytes = size_t{kBlockSize} * kHeadDim * 2;  // K or V of one head in a block
constexpr size_t kLayerBytes = 2 * kHalfBytes * kKvHeads;         // in a block
// Decode walks this many layers, so that the caches see what they would see in a model.
constexpr int64_t kLayers = 30;

// K and V of `num_layers` layers of one sequence.
class Layers {
 public:
  Layers(const KernelTable& table, int64_t num_layers, int64_t num_tokens, bool scattered) {
    const size_t num_blocks = static_cast<size_t>((num_tokens + kBlockSize - 1) / kBlockSize);
    table_.resize(num_blocks);
    std::iota(table_.begin(), table_.end(), 0);
    std::mt19937 random(1);
    if (scattered) std::shuffle(table_.begin(), table_.end(), random);
    block_bytes_ = kLayerBytes * static_cast<size_t>(num_layers);
    memory_ = base::AlignedBuffer::Allocate(block_bytes_ * num_blocks);
    std::normal_distribution<float> normal;
    std::vector<float> k(kKvHeads * kHeadDim), v(k.size());
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      for (int64_t position = 0; position < num_tokens; ++position) {
        for (float& x : k) x = normal(random);
        for (float& x : v) x = normal(random);
        table.attention.store_kv(View(layer), position, kKvHeads, k.data(), v.data());
      }
    }
  }

  PagedKvView View(int64_t layer) {
    return {.base = memory_.data() + static_cast<size_t>(layer) * kLayerBytes,
            .block_stride_bytes = block_bytes_,
            .head_stride_bytes = 2 * kHalfBytes,
            .v_offset_bytes = kHalfBytes,
            .block_table = table_.data(),
            .block_size_tokens = kBlockSize,
            .head_dim = kHeadDim,
            .dtype = KvDtype::kFloat16};
  }

 private:
  std::vector<uint32_t> table_;
  size_t block_bytes_ = 0;
  base::AlignedBuffer memory_;
};

// Room for one call of each kernel.
struct Workspace {
  base::AlignedBuffer scratch =
      base::AlignedBuffer::Allocate(AttentionScratchFloats(kHeadDim) * sizeof(float));
  base::AlignedBuffer running = base::AlignedBuffer::Allocate(kPartialBytes);
  base::AlignedBuffer next = base::AlignedBuffer::Allocate(kPartialBytes);

  static constexpr int64_t kPartial = PartialFloats(kHeadDim);
  static constexpr size_t kPartialBytes = kMaxAttentionRows * kGroupSize * kPartial * sizeof(float);
};

// One kv head of one layer.
struct Head {
  const AttentionKernels& kernels;
  PagedKvView view;
  QueryRows rows;  // all of them
  int64_t kv_head;
};

// Rows [begin, end) of one kv head against everything they see.
void AttendRows(const Head& head, int64_t begin, int64_t end, Workspace& work, float* out) {
  const auto& [kernels, view, rows, kv_head] = head;
  float* running = work.running.As<float>().data();
  float* next = work.next.As<float>().data();
  const int64_t num_pairs = (end - begin) * kGroupSize;
  for (int64_t chunk = 0; chunk * kAttentionChunkTokens < rows.first_position + end; ++chunk) {
    const int64_t first = std::max(begin, chunk * kAttentionChunkTokens - rows.first_position);
    const int64_t skipped = (first - begin) * kGroupSize * Workspace::kPartial;
    QueryRows seeing = rows;
    seeing.q += first * rows.row_stride;
    seeing.num_rows = end - first;
    seeing.first_position += first;
    kernels.attend_tiles(view, seeing, kv_head, {chunk * kChunkTiles, (chunk + 1) * kChunkTiles},
                         work.scratch.As<float>().data(), (chunk == 0 ? running : next) + skipped);
    for (int64_t i = (first - begin) * kGroupSize; chunk > 0 && i < num_pairs; ++i) {
      kernels.fold_partial(running + i * Workspace::kPartial, next + i * Workspace::kPartial,
                           kHeadDim);
    }
  }
  for (int64_t i = 0; i < num_pairs; ++i) {
    kernels.finish(running + i * Workspace::kPartial, kHeadDim, out + i * kHeadDim);
  }
}

std::vector<float> Queries(int64_t num_rows) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> q(static_cast<size_t>(num_rows * kHeads * kHeadDim));
  for (float& x : q) x = normal(random);
  return q;
}

void Decode(benchmark::State& state, Isa isa, bool scattered) {
  const KernelTable* table = FindKernels(isa);
  if (table == nullptr) return state.SkipWithError("this machine cannot run the table");
  const int64_t num_tokens = state.range(0);
  Layers layers(*table, kLayers, num_tokens, scattered);
  const std::vector<float> q = Queries(1);
  const QueryRows rows{q.data(), kHeads * kHeadDim, 1, num_tokens - 1, 1, kGroupSize, 0.125f};
  Workspace work;
  std::vector<float> out(kHeads * kHeadDim);
  for (auto _ : state) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t head = 0; head < kKvHeads; ++head) {
        AttendRows({table->attention, layers.View(layer), rows, head}, 0, 1, work, out.data());
      }
    }
    benchmark::DoNotOptimize(out.data());
  }
  const double bytes = 2.0 * 2.0 * kKvHeads * kHeadDim * static_cast<double>(num_tokens);
  const double layer_runs = static_cast<double>(state.iterations() * kLayers);
  state.counters["layer"] =
      benchmark::Counter(layer_runs, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["GB/s"] =
      benchmark::Counter(bytes * layer_runs * 1e-9, benchmark::Counter::kIsRate);
}

void Prefill(benchmark::State& state, Isa isa) {
  const KernelTable* table = FindKernels(isa);
  if (table == nullptr) return state.SkipWithError("this machine cannot run the table");
  const int64_t num_rows = 512;
  const int64_t first_position = state.range(0);
  Layers layers(*table, 1, first_position + num_rows, false);
  const std::vector<float> q = Queries(num_rows);
  const QueryRows rows{q.data(), kHeads * kHeadDim, num_rows, first_position,
                       1,        kGroupSize,        0.125f};
  Workspace work;
  std::vector<float> out(kMaxAttentionRows * kGroupSize * kHeadDim);
  for (auto _ : state) {
    for (int64_t head = 0; head < kKvHeads; ++head) {
      for (int64_t begin = 0; begin < num_rows; begin += kMaxAttentionRows) {
        AttendRows({table->attention, layers.View(0), rows, head}, begin, begin + kMaxAttentionRows,
                   work, out.data());
      }
    }
    benchmark::DoNotOptimize(out.data());
  }
  const double visible = static_cast<double>(num_rows) * first_position +
                         0.5 * static_cast<double>(num_rows) * (num_rows + 1);
  state.counters["GFLOP/s"] = benchmark::Counter(
      4e-9 * kHeads * kHeadDim * visible * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

void Register() {
  for (const auto& [name, isa] : {std::pair{"avx2", Isa::kAvx2},
                                  {"avx512", Isa::kAvx512},
                                  {"neon", Isa::kNeon},
                                  {"reference", Isa::kReference}}) {
    if (FindKernels(isa) == nullptr) continue;
    for (const bool scattered : {false, true}) {
      const std::string order = scattered ? "scattered" : "in_order";
      benchmark::RegisterBenchmark((std::string("decode/") + name + "/" + order).c_str(), Decode,
                                   isa, scattered)
          ->Arg(128)
          ->Arg(1024)
          ->Arg(4096)
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RegisterBenchmark((std::string("prefill_512/") + name).c_str(), Prefill, isa)
        ->Arg(0)
        ->Arg(3584)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace octavo::kernels

int main(int argc, char** argv) {
  octavo::kernels::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
