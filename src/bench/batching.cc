#include "bench/batching.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "bench/latency.h"

namespace octavo::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// `count` lengths evenly from shortest to longest, in an order that the generator draws.
std::vector<int32_t> MixedLengths(int32_t count, int32_t shortest, int32_t longest,
                                  std::mt19937_64& random) {
  std::vector<int32_t> lengths(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    lengths[static_cast<size_t>(i)] =
        shortest + static_cast<int32_t>(int64_t{longest - shortest} * i / std::max(count - 1, 1));
  }
  for (size_t i = lengths.size(); i > 1; --i) std::swap(lengths[i - 1], lengths[random() % i]);
  return lengths;
}

std::vector<Request> MakeRequests(const ModelInfo& info, const Workload& workload) {
  std::mt19937_64 random(1);
  const std::vector<TokenId> prefix = SyntheticPrompt(info, workload.shared_prefix);
  const std::vector<int32_t> inputs =
      MixedLengths(workload.num_requests, workload.shortest_input, workload.longest_input, random);
  const std::vector<int32_t> outputs = MixedLengths(workload.num_requests, workload.shortest_output,
                                                    workload.longest_output, random);
  std::vector<Request> requests(inputs.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    request.prompt_token_ids = prefix;
    const std::vector<TokenId> own = SyntheticPrompt(info, inputs[i], 2 + i);
    request.prompt_token_ids.insert(request.prompt_token_ids.end(), own.begin(), own.end());
    request.params.n = workload.num_completions;
    request.params.temperature = workload.num_completions > 1 ? 1.0f : 0.0f;
    request.params.seed = i;
    request.params.max_tokens = outputs[i];
    request.params.ignore_eos = true;
    request.params.detokenize = false;
    if (workload.beam_width > 0) {
      request.beam_search = BeamSearchParams{
          .beam_width = workload.beam_width, .max_tokens = outputs[i], .ignore_eos = true};
    }
  }
  return requests;
}

// Sums of what was seen while the requests ran.
class BlockWatch {
 public:
  void Look(const EngineStats& stats, int64_t block_size, double seconds) {
    num_running_ = std::max<int64_t>(num_running_, stats.num_running);
    in_use_ += seconds * stats.cache.num_blocks_in_use;
    named_ += seconds * static_cast<double>(stats.num_held_blocks);
    tokens_ +=
        seconds * static_cast<double>(stats.num_held_tokens) / static_cast<double>(block_size);
  }
  void Report(BatchingResult* result) const {
    result->max_running = num_running_;
    if (in_use_ <= 0.0) return;
    result->block_use = tokens_ / named_;
    result->sharing = 1.0 - in_use_ / named_;
  }

 private:
  int64_t num_running_ = 0;
  double in_use_ = 0, named_ = 0, tokens_ = 0;  // blocks x seconds
};

Percentiles PercentilesOf(std::vector<double> values) {
  std::ranges::sort(values);
  // The smallest value that at least this share of all does not exceed.
  const auto at = [&values](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(rank, 1) - 1];
  };
  return {at(0.5), at(0.9), at(0.99)};
}

struct Submitted {
  std::unique_ptr<RequestStream> stream;
  double at_s = 0;  // from the start of the run
};

struct FinishedRequest {
  RequestOutput output;
  double submitted_s = 0;  // from the start of the run
};

// Fills in what the outputs tell. REQUIRES: result->duration_s is set.
void Report(const std::vector<FinishedRequest>& finished, BatchingResult* result) {
  std::vector<double> ttft;
  std::vector<TokenTimes> sequences;
  int64_t num_outputs = 0;
  int64_t num_prompts = 0;
  for (const auto& [output, submitted_s] : finished) {
    ttft.push_back(output.timing.ttft_s);
    num_prompts += static_cast<int64_t>(output.prompt_token_ids.size());
    for (const CompletionOutput& completion : output.outputs) {
      num_outputs += static_cast<int64_t>(completion.token_ids.size());
    }
    result->num_cached_tokens += output.num_cached_tokens;
    result->num_preemptions += output.num_preemptions;
    sequences.push_back(output.timing.token_s);
    for (double& moment : sequences.back()) moment += submitted_s;
  }
  result->ttft_s = PercentilesOf(std::move(ttft));
  result->output_tokens_per_s = static_cast<double>(num_outputs) / result->duration_s;
  result->total_tokens_per_s = static_cast<double>(num_outputs + num_prompts) / result->duration_s;
  result->decode_tokens_per_s = DecodeTokensPerSecond(sequences);
}

}  // namespace

double DecodeTokensPerSecond(const std::vector<TokenTimes>& sequences) {
  double begin = 0.0;
  double end = std::numeric_limits<double>::infinity();
  for (const TokenTimes& times : sequences) {
    if (times.empty()) return 0.0;
    begin = std::max(begin, times.front());
    end = std::min(end, times.back());
  }
  if (sequences.empty() || begin >= end) return 0.0;
  int64_t num_tokens = 0;
  for (const TokenTimes& times : sequences) {
    num_tokens += std::ranges::upper_bound(times, end) - std::ranges::upper_bound(times, begin);
  }
  return static_cast<double>(num_tokens) / (end - begin);
}

Result<BatchingResult> RunWorkload(Engine& engine, const Workload& workload) {
  engine.ResetPrefixCache();
  const std::vector<Request> requests = MakeRequests(engine.model_info(), workload);
  const Clock::time_point start = Clock::now();
  std::vector<Submitted> submitted;
  for (const Request& request : requests) {
    const double at_s = Seconds(Clock::now() - start);
    Result<std::unique_ptr<RequestStream>> stream = engine.Submit(request);
    if (!stream.ok()) return stream.status();
    submitted.push_back({*std::move(stream), at_s});
  }
  std::vector<FinishedRequest> finished;
  auto ended = std::async(std::launch::async, [&] {
    for (const Submitted& item : submitted) {
      finished.push_back({item.stream->Finish(), item.at_s});
    }
  });
  BatchingResult result;
  BlockWatch watch;
  const int64_t block_size = engine.memory_plan().kv_block_size_tokens;
  Clock::time_point last = start;
  while (ended.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
    const Clock::time_point now = Clock::now();
    watch.Look(engine.stats(), block_size, Seconds(now - last));
    last = now;
  }
  result.duration_s = Seconds(Clock::now() - start);
  watch.Report(&result);
  Report(finished, &result);
  return result;
}

}  // namespace octavo::bench
