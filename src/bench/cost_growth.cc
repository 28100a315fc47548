#include "bench/cost_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "bench/batching.h"
#include "bench/latency.h"
#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Streams = std::vector<std::unique_ptr<RequestStream>>;

constexpr int32_t kDecodedTokens = 33;  // of each stream
// Of each running stream while others wait: measured are as many from the same token on (unless the
// submission of those who wait took longer), for a longer context is slower by itself.
constexpr int32_t kUnmeasuredTokens = 512;
constexpr int32_t kWaitedTokens = 64;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status SubmitOne(Engine& engine, int32_t input_len, int32_t output_len, uint64_t seed,
                 Streams* streams) {
  Request request;
  request.prompt_token_ids = SyntheticPrompt(engine.model_info(), input_len, seed);
  request.params.temperature = 0.0f;
  request.params.max_tokens = output_len;
  request.params.ignore_eos = true;
  request.params.detokenize = false;
  Result<std::unique_ptr<RequestStream>> stream = engine.Submit(std::move(request));
  if (!stream.ok()) return stream.status();
  streams->push_back(*std::move(stream));
  return Status::Ok();
}

// Tokens/s of `num_running` streams that run while `num_waiting` requests wait behind them.
Result<double> RateBehindWhich(Engine& engine, int32_t num_running, int32_t num_waiting) {
  engine.ResetPrefixCache();
  Streams running;
  // Long enough to outlast the submission of those who wait.
  const int32_t output_len = engine.model_info().max_model_len - 8;
  for (int32_t i = 0; i < num_running; ++i) {
    const Status status = SubmitOne(engine, 8, output_len, 1 + static_cast<uint64_t>(i), &running);
    if (!status.ok()) return status;
  }
  int32_t num_tokens = 0;
  const auto read_until = [&num_tokens, &front = *running.front()](int32_t wanted) {
    while (num_tokens < wanted) {
      const std::optional<RequestUpdate> update = front.Next();
      if (!update || update->finish_reason != FinishReason::kNone) return false;
      num_tokens += static_cast<int32_t>(update->token_ids.size());
    }
    return true;
  };
  for (const auto& stream : running) {
    if (stream != running.front()) stream->Next();
  }
  read_until(1);
  Streams waiting;
  for (int32_t i = 0; i < num_waiting; ++i) {
    const auto seed = static_cast<uint64_t>(num_running + i + 1);
    const Status status = SubmitOne(engine, 8, 1, seed, &waiting);
    if (!status.ok()) return status;
  }
  const bool has_begun = read_until(kUnmeasuredTokens);
  while (const std::optional<RequestUpdate> late = running.front()->TryNext()) {
    num_tokens += static_cast<int32_t>(late->token_ids.size());
  }
  const int32_t num_unmeasured = num_tokens;
  const Clock::time_point start = Clock::now();
  if (!has_begun || !read_until(num_unmeasured + kWaitedTokens)) {
    return Status::ResourceExhausted(fmt::format(
        "the running requests ended before {} waiting ones were measured; raise --max-model-len",
        num_waiting));
  }
  const double elapsed = SecondsSince(start);
  const auto still_waiting = static_cast<int32_t>(engine.stats().num_waiting);
  if (still_waiting < num_waiting) {
    return Status::Internal(
        fmt::format("{} of {} requests did not wait", num_waiting - still_waiting, num_waiting));
  }
  return num_running * (num_tokens - num_unmeasured) / elapsed;
}

// One sequence of 64 blocks, whose content no other has.
void LiveThrough(kvcache::KvCacheManager& manager, std::vector<int32_t>& tokens,
                 std::vector<kvcache::BlockCopy>& copies) {
  const auto length = static_cast<int64_t>(tokens.size());
  kvcache::CachedSequence sequence = manager.NewSequence("growth");
  if (manager.Acquire(sequence, tokens, length - 1, &copies) &&
      manager.Reserve(sequence, length, &copies)) {
    manager.Commit(sequence, tokens, length);
  }
  copies.clear();
  ++tokens[0];
}

}  // namespace

Result<GrowthCurve> DecodeRateByContext(Engine& engine, const std::vector<int32_t>& contexts) {
  GrowthCurve curve;
  for (const int32_t context : contexts) {
    const Result<LatencyResult> result =
        MeasureLatency(engine, {.input_len = context, .output_len = kDecodedTokens, .repeat = 3});
    if (!result.ok()) return result.status();
    curve.emplace_back(context, result->median.decode_tokens_per_s);
  }
  return curve;
}

Result<GrowthCurve> OutputRateByBatch(Engine& engine, const std::vector<int32_t>& batches) {
  GrowthCurve curve;
  for (const int32_t batch : batches) {
    double best = 0;
    for (int pass = 0; pass < 3; ++pass) {
      const Result<BatchingResult> result = RunWorkload(engine, {.num_requests = batch,
                                                                 .shortest_input = 1,
                                                                 .longest_input = 1,
                                                                 .shortest_output = kDecodedTokens,
                                                                 .longest_output = kDecodedTokens});
      if (!result.ok()) return result.status();
      best = std::max(best, result->output_tokens_per_s);
    }
    curve.emplace_back(batch, best);
  }
  return curve;
}

Result<GrowthCurve> OutputRateByWaiting(Engine& engine, int32_t max_num_seqs,
                                        const std::vector<int32_t>& waiting) {
  GrowthCurve curve;
  for (const int32_t count : waiting) {
    const Result<double> rate = RateBehindWhich(engine, max_num_seqs, count);
    if (!rate.ok()) return rate.status();
    curve.emplace_back(count, *rate);
  }
  return curve;
}

GrowthCurve BlockRateByPool(const std::vector<int32_t>& pools, double seconds) {
  constexpr int32_t kBlockSize = 16;
  constexpr int32_t kBlocksPerSequence = 64;
  GrowthCurve curve;
  for (const int32_t pool : pools) {
    kvcache::KvCacheOptions options;
    options.num_blocks = static_cast<uint32_t>(std::max(pool, kBlocksPerSequence));
    options.block_size_tokens = kBlockSize;
    options.max_blocks_per_sequence = kBlocksPerSequence;
    kvcache::KvCacheManager manager(options);
    std::vector<int32_t> tokens(size_t{kBlocksPerSequence} * kBlockSize);
    std::iota(tokens.begin(), tokens.end(), 1000);
    std::vector<kvcache::BlockCopy> copies;
    while (manager.stats().num_evictions < options.num_blocks) {
      LiveThrough(manager, tokens, copies);
    }
    const Clock::time_point start = Clock::now();
    int64_t num_sequences = 0;
    do {
      LiveThrough(manager, tokens, copies);
      ++num_sequences;
    } while (SecondsSince(start) < seconds);
    curve.emplace_back(options.num_blocks, static_cast<double>(num_sequences) * kBlocksPerSequence /
                                               SecondsSince(start));
  }
  return curve;
}

}  // namespace octavo::bench
