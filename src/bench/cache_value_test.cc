// What a KV cache is worth: speeds with and without one, and how full the reserved memory is.

#include "bench/cache_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/test_engine.h"

namespace octavo::bench {
namespace {

using ::testing::HasSubstr;

// Lengths 10, 20, 30, 40 in blocks of 16 take 1, 2, 2 and 3 blocks.
TEST(MeasureUtilizationTest, FourSequencesByHand) {
  const CacheUtilization result = MeasureUtilization(16, 4, 10, 40);

  EXPECT_EQ(result.num_sequences, 4);
  EXPECT_EQ(result.num_tokens, 100);
  EXPECT_EQ(result.mean_tokens, 25);
  EXPECT_EQ(result.reserved_tokens_each, 40);
  EXPECT_DOUBLE_EQ(result.contiguous, 100.0 / 160.0);
  EXPECT_DOUBLE_EQ(result.paged, 100.0 / (8 * 16));
}

TEST(MeasureUtilizationTest, OneSequenceHasTheLongestLength) {
  const CacheUtilization result = MeasureUtilization(8, 1, 3, 20);

  EXPECT_EQ(result.num_tokens, 20);
  EXPECT_DOUBLE_EQ(result.contiguous, 1.0);
  EXPECT_DOUBLE_EQ(result.paged, 20.0 / 24.0);
}

TEST(MeasureUtilizationTest, EqualLengthsOfWholeBlocksLeaveNothingEmpty) {
  const CacheUtilization result = MeasureUtilization(32, 5, 64, 64);

  EXPECT_EQ(result.num_tokens, 320);
  EXPECT_DOUBLE_EQ(result.contiguous, 1.0);
  EXPECT_DOUBLE_EQ(result.paged, 1.0);
}

TEST(MeasureUtilizationTest, LargeBlocksWasteWhatSmallBlocksDoNot) {
  // 1, 2 and 3 tokens, a block of 256 each
  EXPECT_DOUBLE_EQ(MeasureUtilization(256, 3, 1, 3).paged, 6.0 / 768.0);
  EXPECT_DOUBLE_EQ(MeasureUtilization(8, 3, 1, 3).paged, 6.0 / 24.0);
}

TEST(MeasureCacheSpeedTest, EachLengthIsMeasuredAndHandedOverInOrder) {
  std::vector<int32_t> seen;
  const Result<std::vector<CacheSpeed>> speeds =
      MeasureCacheSpeed(engine::TinyOptions(), {2, 33},
                        [&seen](const CacheSpeed& row) { seen.push_back(row.num_tokens); });

  ASSERT_TRUE(speeds.ok()) << speeds.status().message();
  EXPECT_EQ(seen, (std::vector<int32_t>{2, 33}));
  ASSERT_EQ(speeds->size(), 2u);
  for (const CacheSpeed& speed : *speeds) {
    EXPECT_GT(speed.cached_tokens_per_s, 0.0);
    EXPECT_GT(speed.uncached_tokens_per_s, 0.0);
  }
}

TEST(MeasureCacheSpeedTest, ALengthBeyondTheContextIsRefusedBeforeAnyIsMeasured) {
  EngineOptions options = engine::TinyOptions();
  options.model.max_model_len = 64;
  int num_rows = 0;
  const Result<std::vector<CacheSpeed>> speeds =
      MeasureCacheSpeed(options, {8, 49}, [&num_rows](const CacheSpeed&) { ++num_rows; });

  ASSERT_FALSE(speeds.ok());
  EXPECT_EQ(speeds.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(speeds.status().message(),
              HasSubstr("--lengths holds 49, but must be at most 48 (max_model_len is 64"));
  EXPECT_EQ(num_rows, 0);
  EXPECT_TRUE(MeasureCacheSpeed(options, {8, 48}, nullptr).ok());
}

TEST(MeasureCacheSpeedTest, AModelThatDoesNotLoadIsAStatus) {
  EngineOptions options;
  options.model.path = "/nowhere/model.gguf";
  EXPECT_EQ(MeasureCacheSpeed(options, {8}, nullptr).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace octavo::bench
