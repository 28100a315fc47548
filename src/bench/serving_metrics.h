#pragma once

// Purpose:    what a load generator measured, with the definitions and the JSON keys of vLLM's
//             `bench serve`.
// Ownership:  plain values.
// Threading:  any thread.
// Invariants: TTFT is from sending to the first chunk with choices; ITL the gaps between chunks of
//             all requests together; TPOT of a request is (latency - TTFT) / (output tokens - 1)
//             where it has more than one; E2EL is from sending to the last chunk. Failed requests
//             count in `failed` alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octavo::bench {

// One request, as its client saw it.
struct ServedRequest {
  double sent_s = 0.0;  // from the start of the run
  double ttft_s = 0.0;
  double latency_s = 0.0;     // to the last chunk
  std::vector<double> itl_s;  // gaps between chunks
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_output_tokens = 0;
  std::string error;  // empty: it was served
};

// Mean, median, deviation and percentiles of one quantity, in ms.
struct Spread {
  double mean = 0.0, median = 0.0, deviation = 0.0;
  std::vector<double> percentiles;  // [ServingMetrics::percentiles]
};

// Limits within which a request counts as good, in ms.
struct GoodputLimits {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool any() const { return ttft_ms || tpot_ms || e2el_ms; }
};

struct ServingMetrics {
  std::vector<double> percentiles;  // in %
  double duration_s = 0.0;
  int64_t num_completed = 0;
  int64_t num_failed = 0;
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_output_tokens = 0;
  double requests_per_s = 0.0;
  double output_tokens_per_s = 0.0;
  double total_tokens_per_s = 0.0;
  double peak_output_tokens_per_s = 0.0;  // in seconds of the run
  int64_t peak_concurrency = 0;
  std::optional<double> goodput_per_s;
  Spread ttft, tpot, itl, e2el;
};

ServingMetrics Measure(const std::vector<ServedRequest>& requests, double duration_s,
                       const std::vector<double>& percentiles, const GoodputLimits& limits);

}  // namespace octavo::bench
