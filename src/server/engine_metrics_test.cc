// Exposition text: names that dashboards read, and values that are those of the statistics.

#include "server/engine_metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace octavo::server {
namespace {

std::string Expose(const EngineStats& stats, const EngineMetricsOptions& options) {
  std::vector<prometheus::MetricFamily> families;
  CollectEngineMetrics(stats, options, &families);
  return SerializeMetrics(families, "a \"model\"\n");
}

bool Has(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

constexpr char kLabels[] = R"(model_name="a \"model\"\n",engine="0"})";

TEST(EngineMetricsTest, NamesAreVllmsAndLabelsAreEscaped) {
  EngineStats stats;
  stats.num_running = 3;
  stats.cache.num_blocks = 8;
  stats.cache.num_blocks_in_use = 2;
  stats.num_prompt_tokens = 100;
  stats.num_cached_tokens = 40;
  stats.num_finished[2] = 7;  // length
  const std::string text = Expose(stats, {});
  EXPECT_TRUE(Has(text, std::string("vllm:num_requests_running{") + kLabels + " 3")) << text;
  EXPECT_TRUE(Has(text, std::string("vllm:kv_cache_usage_perc{") + kLabels + " 0.25"));
  EXPECT_TRUE(Has(text, std::string("vllm:prefix_cache_hits_total{") + kLabels + " 40"));
  EXPECT_TRUE(Has(text, std::string(R"(vllm:request_success_total{finished_reason="length",)") +
                            kLabels + " 7"));
  EXPECT_TRUE(Has(text, "# TYPE vllm:prefix_cache_hits_total counter"));
  EXPECT_EQ(text.find("gpu_cache_usage_perc"), std::string::npos);
}

TEST(EngineMetricsTest, FormerNamesAndBlockTimesAreThereWhenAskedFor) {
  const std::string text = Expose({}, {.former_names = true, .block_metrics = true});
  for (const char* name : {"vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hits_total",
                           "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hit_rate",
                           "vllm:num_requests_swapped", "vllm:kv_block_lifetime_seconds_bucket"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
}

TEST(EngineMetricsTest, AHistogramsBucketsAddUp) {
  EngineStats stats;
  stats.num_steps = 6;
  stats.num_computed_tokens = 40;
  stats.num_steps_by_rows = {1, 2, 3};
  const std::string text = Expose(stats, {});
  EXPECT_TRUE(Has(text, std::string("vllm:iteration_tokens_total_sum{") + kLabels + " 40"));
  EXPECT_TRUE(Has(text, std::string("vllm:iteration_tokens_total_count{") + kLabels + " 6"));
  EXPECT_NE(text.find(R"(le="8"} 3)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"(le="16"} 6)"), std::string::npos);
  EXPECT_NE(text.find(R"(le="+Inf"} 6)"), std::string::npos);
}

}  // namespace
}  // namespace octavo::server
