// The definitions of what a load generator reports, by hand-worked values.

#include "bench/serving_metrics.h"

#include <gtest/gtest.h>

namespace octavo::bench {
namespace {

ServedRequest Served(double sent, double ttft, std::vector<double> gaps, int64_t num_output) {
  ServedRequest request;
  request.sent_s = sent;
  request.ttft_s = ttft;
  request.latency_s = ttft;
  for (const double gap : gaps) request.latency_s += gap;
  request.itl_s = std::move(gaps);
  request.num_prompt_tokens = 10;
  request.num_output_tokens = num_output;
  return request;
}

TEST(ServingMetricsTest, EachQuantityFollowsItsDefinition) {
  const std::vector<ServedRequest> requests = {
      Served(0.0, 0.1, {0.1, 0.3}, 5),  // TPOT 0.4 / 4
      Served(0.2, 0.3, {}, 1),          // one token: no TPOT
  };
  const ServingMetrics metrics = Measure(requests, 2.0, {50, 100}, {});
  EXPECT_EQ(metrics.num_completed, 2);
  EXPECT_DOUBLE_EQ(metrics.requests_per_s, 1.0);
  EXPECT_DOUBLE_EQ(metrics.output_tokens_per_s, 3.0);
  EXPECT_DOUBLE_EQ(metrics.total_tokens_per_s, 13.0);
  EXPECT_NEAR(metrics.ttft.mean, 200.0, 1e-9);
  EXPECT_NEAR(metrics.ttft.deviation, 100.0, 1e-9);
  EXPECT_NEAR(metrics.ttft.percentiles[1], 300.0, 1e-9);
  EXPECT_NEAR(metrics.tpot.mean, 100.0, 1e-9);
  EXPECT_NEAR(metrics.itl.mean, 200.0, 1e-9);
  EXPECT_NEAR(metrics.itl.median, 200.0, 1e-9);
  EXPECT_NEAR(metrics.e2el.percentiles[0], 400.0, 1e-9);
  EXPECT_EQ(metrics.peak_concurrency, 2);
  EXPECT_DOUBLE_EQ(metrics.peak_output_tokens_per_s, 6.0);
  EXPECT_FALSE(metrics.goodput_per_s);
}

TEST(ServingMetricsTest, AFailedRequestCountsAsFailedAndNothingElse) {
  ServedRequest failed = Served(0.0, 9.0, {}, 100);
  failed.error = "HTTP 500";
  const ServingMetrics metrics = Measure({failed}, 1.0, {99}, {});
  EXPECT_EQ(metrics.num_failed, 1);
  EXPECT_EQ(metrics.num_completed, 0);
  EXPECT_EQ(metrics.num_output_tokens, 0);
  EXPECT_EQ(metrics.ttft.mean, 0.0);
  EXPECT_EQ(metrics.peak_concurrency, 0);
}

TEST(ServingMetricsTest, GoodputCountsTheRequestsWithinEveryLimit) {
  const std::vector<ServedRequest> requests = {
      Served(0.0, 0.1, {0.1}, 2), Served(0.0, 0.5, {0.1}, 2), Served(0.0, 0.1, {0.9}, 2)};
  GoodputLimits limits;
  limits.ttft_ms = 200.0;
  EXPECT_DOUBLE_EQ(*Measure(requests, 1.0, {}, limits).goodput_per_s, 2.0);
  limits.tpot_ms = 200.0;
  EXPECT_DOUBLE_EQ(*Measure(requests, 1.0, {}, limits).goodput_per_s, 1.0);
}

}  // namespace
}  // namespace octavo::bench
