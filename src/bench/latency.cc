#include "bench/latency.h"

#include <fmt/format.h>

#include <algorithm>

namespace octavo::bench {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

LatencyRun MedianOf(const std::vector<LatencyRun>& runs) {
  const auto median_of = [&runs](double LatencyRun::*field) {
    std::vector<double> values;
    for (const LatencyRun& run : runs) values.push_back(run.*field);
    return Median(std::move(values));
  };
  return {median_of(&LatencyRun::prefill_tokens_per_s), median_of(&LatencyRun::ttft_s),
          median_of(&LatencyRun::decode_tokens_per_s), median_of(&LatencyRun::cached_ttft_s)};
}

Status CheckOptions(const ModelInfo& info, const LatencyOptions& options) {
  if (options.input_len < 1) {
    return Status::InvalidArgument(
        fmt::format("input_len is {}, but must be at least 1", options.input_len));
  }
  if (options.output_len < 2) {
    return Status::InvalidArgument(
        fmt::format("output_len is {}, but must be at least 2", options.output_len));
  }
  if (options.repeat < 1) {
    return Status::InvalidArgument(
        fmt::format("repeat is {}, but must be at least 1", options.repeat));
  }
  if (options.cached_len < 0 || options.cached_len >= options.input_len) {
    return Status::InvalidArgument(
        fmt::format("cached_len is {}, but must be from 0 to {}, one less than input_len",
                    options.cached_len, options.input_len - 1));
  }
  if (int64_t{options.input_len} + options.output_len > info.max_model_len) {
    return Status::InvalidArgument(
        fmt::format("input_len {} and output_len {} are longer than max_model_len {}",
                    options.input_len, options.output_len, info.max_model_len));
  }
  return Status::Ok();
}

Result<RequestOutput> GenerateAll(Engine& engine, const std::vector<TokenId>& prompt,
                                  int32_t output_len) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.ignore_eos = true;
  params.detokenize = false;
  params.max_tokens = output_len;
  Result<RequestOutput> output = engine.Generate(prompt, params);
  if (!output.ok()) return output;
  const CompletionOutput& completion = output->outputs.front();
  if (completion.finish_reason != FinishReason::kLength) {
    return Status::Internal(fmt::format("the run ended after {} of {} tokens with {}",
                                        completion.token_ids.size(), output_len,
                                        FinishReasonName(completion.finish_reason)));
  }
  return output;
}

}  // namespace

std::vector<TokenId> SyntheticPrompt(const ModelInfo& info, int32_t length, uint64_t seed) {
  // Special tokens usually lie at the ends of the vocabulary; the middle half is ordinary text.
  const int64_t first = info.vocab_size / 4;
  const int64_t span = std::max(info.vocab_size / 2, 1);
  std::vector<TokenId> tokens(static_cast<size_t>(length));
  uint64_t state = seed;
  for (TokenId& token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<TokenId>(first + static_cast<int64_t>(state >> 33) % span);
  }
  return tokens;
}

Result<LatencyResult> MeasureLatency(Engine& engine, const LatencyOptions& options) {
  const ModelInfo& info = engine.model_info();
  if (Status status = CheckOptions(info, options); !status.ok()) return status;
  const std::vector<TokenId> prompt = SyntheticPrompt(info, options.input_len);
  std::vector<TokenId> further = SyntheticPrompt(info, options.input_len, /*seed=*/2);
  std::copy_n(prompt.begin(), options.cached_len, further.begin());

  LatencyResult result;
  for (int32_t i = 0; i < options.repeat; ++i) {
    engine.ResetPrefixCache();  // every run computes its whole prompt
    const Result<RequestOutput> output = GenerateAll(engine, prompt, options.output_len);
    if (!output.ok()) return output.status();
    const RequestTiming& timing = output->timing;
    result.runs.push_back({options.input_len / timing.prefill_s, timing.ttft_s,
                           (options.output_len - 1) / timing.decode_s});
    if (options.cached_len == 0) continue;
    const Result<RequestOutput> cached = GenerateAll(engine, further, /*output_len=*/1);
    if (!cached.ok()) return cached.status();
    if (cached->num_cached_tokens < options.cached_len) {
      return Status::Unavailable(
          fmt::format("{} of {} tokens were found in the cache; is the prefix cache off, or its "
                      "memory too small?",
                      cached->num_cached_tokens, options.cached_len));
    }
    result.runs.back().cached_ttft_s = cached->timing.ttft_s;
  }
  result.median = MedianOf(result.runs);
  return result;
}

}  // namespace octavo::bench
