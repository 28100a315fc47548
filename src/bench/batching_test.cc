// The batching bench on a tiny model: its figures are those of the work that it gives.

#include "bench/batching.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/test_engine.h"

namespace octavo::bench {
namespace {

Workload SmallWorkload() {
  Workload workload;
  workload.num_requests = 6;
  workload.shortest_input = 10;
  workload.longest_input = 60;
  workload.shortest_output = 20;
  workload.longest_output = 70;
  return workload;
}

TEST(BatchingTest, EveryTokenOfTheWorkloadIsComputedAndNothingIsCachedOrShared) {
  const std::unique_ptr<Engine> engine = engine::MakeEngine(engine::TinyOptions());
  const Result<BatchingResult> result = RunWorkload(*engine, SmallWorkload());
  ASSERT_TRUE(result.ok()) << result.status().message();

  // Prompts of 10, 20, ... 60 tokens, outputs of 20, 30, ... 70.
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_prompt_tokens, 210u);
  EXPECT_EQ(stats.num_generation_tokens, 270u);
  EXPECT_EQ(result->num_cached_tokens, 0);
  EXPECT_EQ(result->num_preemptions, 0);
  EXPECT_NEAR(result->total_tokens_per_s * result->duration_s, 480.0, 1e-6);
  EXPECT_NEAR(result->output_tokens_per_s * result->duration_s, 270.0, 1e-6);
  EXPECT_GT(result->ttft_s.p50, 0.0);
  EXPECT_LE(result->ttft_s.p50, result->ttft_s.p90);
  EXPECT_LE(result->ttft_s.p90, result->ttft_s.p99);
  EXPECT_LE(result->ttft_s.p99, result->duration_s);
  EXPECT_NEAR(result->sharing, 0.0, 1e-9);
}

TEST(BatchingTest, DecodeIsCountedWhileAllSequencesDecode) {
  // The second begins at 2 and the first ends at 4: two tokens of the first, one of the second.
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond({{1, 2, 3, 4}, {2, 3.5, 5}}), 3 / 2.0);
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond({{1, 2, 3}}), 1.0);
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond({{1, 2}, {3, 4}}), 0.0);  // never both
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond({{1, 2}, {}}), 0.0);
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond({}), 0.0);
}

// One request, for a tiny model ends several before all of them have begun.
TEST(BatchingTest, DecodeIsCountedFromTheFirstTokenToTheLast) {
  const std::unique_ptr<Engine> engine = engine::MakeEngine(engine::TinyOptions());
  Workload workload;
  workload.num_requests = 1;
  workload.shortest_input = workload.longest_input = 10;
  workload.shortest_output = workload.longest_output = 40;
  const Result<BatchingResult> result = RunWorkload(*engine, workload);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_NEAR(result->output_tokens_per_s * result->duration_s, 40.0, 1e-6);

  // The first of the 40 tokens is not of the decode, nor is the time before it.
  EXPECT_GT(result->decode_tokens_per_s * result->duration_s, 39.0);
}

TEST(BatchingTest, ASharedPrefixIsFoundByAllButTheFirst) {
  const std::unique_ptr<Engine> engine = engine::MakeEngine(engine::TinyOptions());
  Workload workload = SmallWorkload();
  workload.shared_prefix = 64;
  const Result<BatchingResult> result = RunWorkload(*engine, workload);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->num_cached_tokens, 5 * 64);
}

TEST(BatchingTest, AWorkloadBeyondTheContextIsRefused) {
  const std::unique_ptr<Engine> engine = engine::MakeEngine(engine::TinyOptions());
  Workload workload = SmallWorkload();
  workload.longest_input = 600;
  EXPECT_EQ(RunWorkload(*engine, workload).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace octavo::bench
