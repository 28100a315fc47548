#include "server/request_metrics.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace octavo::server {
namespace {

// Positions in RequestMetrics::histograms_.
enum Which : size_t {
  kTtft,
  kItl,
  kTpot,
  kE2e,
  kQueue,
  kInference,
  kPrefill,
  kDecode,
  kPromptTokens,
  kGenerationTokens,
  kMaxTokens,
  kComputedTokens,
  kN,
};

std::vector<double> TtftBounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
}

std::vector<double> TokenTimeBounds() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
          0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
}

std::vector<double> RequestTimeBounds() {
  return {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
          30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
}

// 1, 2, 5, 10, ... up to 500,000.
std::vector<double> CountBounds() {
  std::vector<double> bounds;
  for (double decade = 1.0; decade <= 1e5; decade *= 10.0) {
    for (const double step : {1.0, 2.0, 5.0}) bounds.push_back(decade * step);
  }
  return bounds;
}

}  // namespace

std::vector<RequestShape> ShapesOf(std::span<const Request> requests) {
  std::vector<RequestShape> shapes;
  for (const Request& request : requests) {
    shapes.push_back(
        request.beam_search
            ? RequestShape{request.beam_search->beam_width, request.beam_search->max_tokens}
            : RequestShape{request.params.n, request.params.max_tokens.value_or(0)});
  }
  return shapes;
}

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::Record(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  ++num_samples_;
  sum_ += value;
}

prometheus::ClientMetric Histogram::Collect() const {
  prometheus::ClientMetric metric;
  uint64_t cumulative = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    cumulative += counts_[i];
    metric.histogram.bucket.push_back({cumulative, bounds_[i]});
  }
  metric.histogram.bucket.push_back({num_samples_, std::numeric_limits<double>::infinity()});
  metric.histogram.sample_count = num_samples_;
  metric.histogram.sample_sum = sum_;
  return metric;
}

RequestMetrics::RequestMetrics() {
  const auto add = [this](const char* name, const char* help, std::vector<double> bounds) {
    histograms_.push_back({name, help, Histogram(std::move(bounds))});
  };
  add("vllm:time_to_first_token_seconds", "Time to first token.", TtftBounds());
  add("vllm:inter_token_latency_seconds", "Time between two tokens of a request.",
      TokenTimeBounds());
  add("vllm:request_time_per_output_token_seconds", "Mean time per output token of a request.",
      TokenTimeBounds());
  add("vllm:e2e_request_latency_seconds", "From submission to the last token.",
      RequestTimeBounds());
  add("vllm:request_queue_time_seconds", "Time spent waiting.", RequestTimeBounds());
  add("vllm:request_inference_time_seconds", "Time spent running.", RequestTimeBounds());
  add("vllm:request_prefill_time_seconds", "Time to compute the prompt.", RequestTimeBounds());
  add("vllm:request_decode_time_seconds", "From the first token to the last.", RequestTimeBounds());
  add("vllm:request_prompt_tokens", "Prompt tokens of a request.", CountBounds());
  add("vllm:request_generation_tokens", "Output tokens of a completion.", CountBounds());
  add("vllm:request_params_max_tokens", "The max_tokens of a request.", CountBounds());
  add("vllm:request_prefill_kv_computed_tokens", "Prompt tokens that were not cached.",
      CountBounds());
  add("vllm:request_params_n", "The n of a request.", {1, 2, 5, 10, 20});
}

void RequestMetrics::Record(std::span<const RequestOutput> outputs,
                            std::span<const RequestShape> shapes) {
  for (size_t i = 0; i < outputs.size(); ++i) RecordOne(outputs[i], shapes[i]);
}

void RequestMetrics::RecordOne(const RequestOutput& output, const RequestShape& shape) {
  const RequestTiming& timing = output.timing;
  const auto record = [this](Which which, double value) {
    histograms_[which].histogram.Record(value);
  };
  const auto num_prompt_tokens = static_cast<double>(output.prompt_token_ids.size());
  const size_t num_tokens = timing.token_s.size();
  if (num_tokens > 0) record(kTtft, timing.ttft_s);
  for (size_t i = 1; i < num_tokens; ++i) record(kItl, timing.token_s[i] - timing.token_s[i - 1]);
  if (num_tokens > 1) {
    record(kTpot,
           (timing.token_s.back() - timing.token_s.front()) / static_cast<double>(num_tokens - 1));
  }
  record(kE2e, timing.ttft_s + timing.decode_s);
  record(kQueue, timing.queued_s);
  record(kInference, timing.ttft_s + timing.decode_s - timing.queued_s);
  record(kPrefill, timing.prefill_s);
  record(kDecode, timing.decode_s);
  record(kPromptTokens, num_prompt_tokens);
  record(kComputedTokens, num_prompt_tokens - output.num_cached_tokens);
  for (const CompletionOutput& completion : output.outputs) {
    record(kGenerationTokens, static_cast<double>(completion.token_ids.size()));
  }
  if (shape.max_tokens > 0) record(kMaxTokens, shape.max_tokens);
  record(kN, shape.num_completions);
}

void RequestMetrics::Collect(bool former_names,
                             std::vector<prometheus::MetricFamily>* families) const {
  const auto add = [families](const char* name, const char* help, const Histogram& histogram) {
    families->push_back({name, help, prometheus::MetricType::Histogram, {histogram.Collect()}});
  };
  for (const Named& named : histograms_) add(named.name, named.help, named.histogram);
  if (former_names) {
    add("vllm:time_per_output_token_seconds", "Former name of inter_token_latency_seconds.",
        histograms_[kItl].histogram);
  }
  prometheus::ClientMetric cut_off;
  cut_off.counter.value = static_cast<double>(num_cut_off_);
  families->push_back({"octavo:requests_cut_off_total",
                       "Requests whose client left or whose time was over.",
                       prometheus::MetricType::Counter,
                       {cut_off}});
}

}  // namespace octavo::server
