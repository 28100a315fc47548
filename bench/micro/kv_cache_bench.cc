// The KV cache's control plane: what a block costs from allocation to eviction, and what a long
// prefix costs to find. No model and no bytes.
//
//   octavo_kv_cache_bench --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::kvcache {
namespace {

constexpr std::string_view kRoot = "bench";
constexpr uint32_t kNumBlocks = 100'000;
constexpr int32_t kBlockSize = 16;

KvCacheOptions Options(EvictionPolicyKind eviction, size_t max_blocks_per_sequence) {
  KvCacheOptions options;
  options.num_blocks = kNumBlocks;
  options.block_size_tokens = kBlockSize;
  options.max_blocks_per_sequence = max_blocks_per_sequence;
  options.eviction = eviction;
  return options;
}

std::vector<int32_t> Prompt(size_t num_tokens) {
  std::vector<int32_t> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), 1000);
  return tokens;
}

// A sequence from its first block to its end, in a pool that is full of cached content: each block
// is taken from older content (evicted, its node removed), published (its node inserted), and given
// back to the cache.
void RunSequence(KvCacheManager& manager, std::vector<int32_t>& tokens,
                 std::vector<BlockCopy>& copies) {
  const auto length = static_cast<int64_t>(tokens.size());
  CachedSequence sequence = manager.NewSequence(kRoot);
  bool done = manager.Acquire(sequence, tokens, length - 1, &copies);
  done = done && manager.Reserve(sequence, length, &copies);
  benchmark::DoNotOptimize(done);
  manager.Commit(sequence, tokens, length);
  copies.clear();
  ++tokens[0];  // the next one has nothing in common with it
}

void BM_BlockLife(benchmark::State& state, EvictionPolicyKind eviction) {
  const auto blocks_per_sequence = static_cast<size_t>(state.range(0));
  KvCacheManager manager(Options(eviction, blocks_per_sequence));
  std::vector<int32_t> tokens = Prompt(blocks_per_sequence * kBlockSize);
  std::vector<BlockCopy> copies;
  while (manager.stats().num_evictions < 2 * kNumBlocks) RunSequence(manager, tokens, copies);

  for (auto _ : state) RunSequence(manager, tokens, copies);

  state.counters["per_block"] = benchmark::Counter(
      static_cast<double>(blocks_per_sequence),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(BM_BlockLife, lru, EvictionPolicyKind::kLru)->Arg(8)->Arg(64)->Arg(512);
BENCHMARK_CAPTURE(BM_BlockLife, cost_aware, EvictionPolicyKind::kCostAware)->Arg(64);

void BM_PrefixMatch(benchmark::State& state) {
  const auto num_tokens = static_cast<size_t>(state.range(0));
  const auto length = static_cast<int64_t>(num_tokens);
  KvCacheManager manager(Options(EvictionPolicyKind::kLru, num_tokens / kBlockSize + 1));
  std::vector<BlockCopy> copies;
  std::vector<int32_t> others = Prompt(64 * kBlockSize);
  for (uint32_t i = 0; i < kNumBlocks / 64; ++i) RunSequence(manager, others, copies);
  std::vector<int32_t> tokens = Prompt(num_tokens);
  tokens[0] = -1;
  RunSequence(manager, tokens, copies);
  tokens[0] = -1;

  for (auto _ : state) {
    const PrefixMatch match = manager.Match(kRoot, tokens, length);
    if (match.num_tokens != length) state.SkipWithError("the prefix is not found");
  }
}
BENCHMARK(BM_PrefixMatch)->Arg(50'000)->Unit(benchmark::kMicrosecond);

// One decode step of a sequence: a position reserved, a token committed.
void BM_DecodeToken(benchmark::State& state) {
  constexpr int64_t kLength = 4096;
  KvCacheManager manager(Options(EvictionPolicyKind::kLru, kLength / kBlockSize));
  std::vector<int32_t> tokens = Prompt(kLength);
  std::vector<BlockCopy> copies;
  CachedSequence sequence = manager.NewSequence(kRoot);
  for (auto _ : state) {
    if (sequence.num_tokens() == kLength) {
      sequence.Reset();
      ++tokens[0];
    }
    const int64_t next = sequence.num_tokens() + 1;
    const bool done = manager.Reserve(sequence, next, &copies);
    benchmark::DoNotOptimize(done);
    manager.Commit(sequence, tokens, next);
  }
}
BENCHMARK(BM_DecodeToken);

}  // namespace
}  // namespace octavo::kvcache
