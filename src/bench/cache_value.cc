#include "bench/cache_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "bench/latency.h"
#include "octavo/engine.h"
#include "octavo/kvcache/block_pool.h"
#include "octavo/kvcache/block_table.h"

namespace octavo::bench {
namespace {

// Output tokens per measurement: the first is prefill's, the others are timed.
constexpr int32_t kCachedOutputs = 17;
constexpr int32_t kUncachedOutputs = 4;

Result<std::unique_ptr<Engine>> MakeEngine(EngineOptions options, KvCacheMode mode) {
  options.cache.mode = mode;
  return Engine::Create(options);
}

}  // namespace

Result<std::vector<CacheSpeed>> MeasureCacheSpeed(
    const EngineOptions& base, const std::vector<int32_t>& lengths,
    const std::function<void(const CacheSpeed&)>& on_row) {
  const Result<std::unique_ptr<Engine>> cached = MakeEngine(base, KvCacheMode::kPaged);
  if (!cached.ok()) return cached.status();
  const Result<std::unique_ptr<Engine>> uncached = MakeEngine(base, KvCacheMode::kNone);
  if (!uncached.ok()) return uncached.status();

  const int32_t max_model_len =
      std::min((*cached)->model_info().max_model_len, (*uncached)->model_info().max_model_len);
  for (const int32_t length : lengths) {
    // The first output token belongs to the length.
    if (int64_t{length} + kCachedOutputs - 1 <= max_model_len) continue;
    return Status::InvalidArgument(fmt::format(
        "--lengths holds {}, but must be at most {} (max_model_len is {}, and {} tokens "
        "are generated)",
        length, max_model_len - kCachedOutputs + 1, max_model_len, kCachedOutputs));
  }

  std::vector<CacheSpeed> speeds;
  for (int32_t length : lengths) {
    // The step at `length` tokens is the one after the prompt of length - 1 and its first output.
    const int32_t input_len = std::max(length - 1, 1);
    const Result<LatencyResult> with =
        MeasureLatency(**cached, {input_len, kCachedOutputs, /*repeat=*/1});
    if (!with.ok()) return with.status();
    const Result<LatencyResult> without =
        MeasureLatency(**uncached, {input_len, kUncachedOutputs, /*repeat=*/1});
    if (!without.ok()) return without.status();
    speeds.push_back(
        {length, with->median.decode_tokens_per_s, without->median.decode_tokens_per_s});
    if (on_row) on_row(speeds.back());
  }
  return speeds;
}

CacheUtilization MeasureUtilization(int32_t block_size, int32_t num_sequences, int32_t shortest,
                                    int32_t longest) {
  OCTAVO_CHECK(num_sequences >= 1 && shortest >= 1 && shortest <= longest, "a mix of sequences");
  CacheUtilization result;
  result.num_sequences = num_sequences;
  result.reserved_tokens_each = longest;

  const int64_t blocks_each = (longest + block_size - 1) / block_size;
  kvcache::BlockPool pool(static_cast<uint32_t>(blocks_each * num_sequences));
  std::vector<kvcache::BlockTable> tables;
  for (int32_t i = 0; i < num_sequences; ++i) {
    const int64_t length = num_sequences == 1
                               ? longest
                               : shortest + int64_t{longest - shortest} * i / (num_sequences - 1);
    kvcache::BlockTable& table =
        tables.emplace_back(&pool, block_size, static_cast<size_t>(blocks_each));
    OCTAVO_CHECK(table.EnsureCapacity(length), "the pool has room for all sequences");
    table.Advance(length);
    result.num_tokens += length;
  }
  result.mean_tokens = result.num_tokens / num_sequences;
  const auto tokens = static_cast<double>(result.num_tokens);
  result.paged = tokens / (static_cast<double>(pool.num_in_use()) * block_size);
  result.contiguous = tokens / (static_cast<double>(longest) * num_sequences);
  return result;
}

}  // namespace octavo::bench
