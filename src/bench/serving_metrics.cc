#include "bench/serving_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace octavo::bench {
namespace {

// Between the two nearest samples, as NumPy's default.
double Percentile(const std::vector<double>& sorted, double percent) {
  const double position = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

Spread SpreadOf(std::vector<double> seconds, const std::vector<double>& percentiles) {
  Spread spread;
  spread.percentiles.resize(percentiles.size());
  if (seconds.empty()) return spread;
  std::ranges::sort(seconds);
  const auto count = static_cast<double>(seconds.size());
  double sum = 0.0;
  for (const double value : seconds) sum += value;
  const double mean = sum / count;
  double squares = 0.0;
  for (const double value : seconds) squares += (value - mean) * (value - mean);
  spread.mean = mean * 1e3;
  spread.median = Percentile(seconds, 50.0) * 1e3;
  spread.deviation = std::sqrt(squares / count) * 1e3;
  for (size_t i = 0; i < percentiles.size(); ++i) {
    spread.percentiles[i] = Percentile(seconds, percentiles[i]) * 1e3;
  }
  return spread;
}

double TpotOf(const ServedRequest& request) {
  if (request.num_output_tokens <= 1) return 0.0;
  return (request.latency_s - request.ttft_s) / static_cast<double>(request.num_output_tokens - 1);
}

bool IsGood(const ServedRequest& request, const GoodputLimits& limits) {
  const auto within = [](const std::optional<double>& limit_ms, double seconds) {
    return !limit_ms || seconds * 1e3 <= *limit_ms;
  };
  return within(limits.ttft_ms, request.ttft_s) && within(limits.tpot_ms, TpotOf(request)) &&
         within(limits.e2el_ms, request.latency_s);
}

// Tokens of each second of the run: a chunk counts as an equal share of its request's tokens.
double PeakOutputRate(const std::vector<ServedRequest>& requests) {
  std::map<int64_t, double> tokens_by_second;
  for (const ServedRequest& request : requests) {
    if (!request.error.empty()) continue;
    const double share = static_cast<double>(request.num_output_tokens) /
                         static_cast<double>(request.itl_s.size() + 1);
    double now = request.sent_s + request.ttft_s;
    tokens_by_second[static_cast<int64_t>(now)] += share;
    for (const double gap : request.itl_s) {
      now += gap;
      tokens_by_second[static_cast<int64_t>(now)] += share;
    }
  }
  double peak = 0.0;
  for (const auto& [second, tokens] : tokens_by_second) peak = std::max(peak, tokens);
  return peak;
}

int64_t PeakConcurrency(const std::vector<ServedRequest>& requests) {
  std::vector<std::pair<double, int>> changes;
  for (const ServedRequest& request : requests) {
    if (!request.error.empty()) continue;
    changes.emplace_back(request.sent_s, 1);
    changes.emplace_back(request.sent_s + request.latency_s, -1);
  }
  std::ranges::sort(changes);
  int64_t now = 0;
  int64_t peak = 0;
  for (const auto& [time, change] : changes) peak = std::max(peak, now += change);
  return peak;
}

}  // namespace

ServingMetrics Measure(const std::vector<ServedRequest>& requests, double duration_s,
                       const std::vector<double>& percentiles, const GoodputLimits& limits) {
  ServingMetrics metrics;
  metrics.percentiles = percentiles;
  metrics.duration_s = duration_s;
  std::vector<double> ttft, tpot, itl, e2el;
  int64_t num_good = 0;
  for (const ServedRequest& request : requests) {
    if (!request.error.empty()) {
      ++metrics.num_failed;
      continue;
    }
    ++metrics.num_completed;
    metrics.num_prompt_tokens += request.num_prompt_tokens;
    metrics.num_cached_tokens += request.num_cached_tokens;
    metrics.num_output_tokens += request.num_output_tokens;
    ttft.push_back(request.ttft_s);
    e2el.push_back(request.latency_s);
    itl.insert(itl.end(), request.itl_s.begin(), request.itl_s.end());
    if (request.num_output_tokens > 1) tpot.push_back(TpotOf(request));
    num_good += IsGood(request, limits);
  }
  const auto per_second = [duration_s](int64_t count) {
    return duration_s > 0.0 ? static_cast<double>(count) / duration_s : 0.0;
  };
  metrics.requests_per_s = per_second(metrics.num_completed);
  metrics.output_tokens_per_s = per_second(metrics.num_output_tokens);
  metrics.total_tokens_per_s = per_second(metrics.num_output_tokens + metrics.num_prompt_tokens);
  metrics.peak_output_tokens_per_s = PeakOutputRate(requests);
  metrics.peak_concurrency = PeakConcurrency(requests);
  if (limits.any()) metrics.goodput_per_s = per_second(num_good);
  metrics.ttft = SpreadOf(std::move(ttft), percentiles);
  metrics.tpot = SpreadOf(std::move(tpot), percentiles);
  metrics.itl = SpreadOf(std::move(itl), percentiles);
  metrics.e2el = SpreadOf(std::move(e2el), percentiles);
  return metrics;
}

}  // namespace octavo::bench
