// The latency bench: which runs it refuses, what it measures, and the prompt that it makes.

#include "bench/latency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/test_engine.h"

namespace octavo::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LatencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options = engine::TinyOptions();
    options.model.max_model_len = 96;
    engine_ = engine::MakeEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  std::string Refusal(const LatencyOptions& options) {
    const Result<LatencyResult> result = MeasureLatency(*engine_, options);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    return result.status().message();
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(LatencyTest, EachOptionOutOfItsRangeIsNamedWithValueAndLimit) {
  EXPECT_EQ(Refusal({.input_len = 0, .output_len = 8, .repeat = 1}),
            "input_len is 0, but must be at least 1");
  EXPECT_EQ(Refusal({.input_len = 8, .output_len = 1, .repeat = 1}),
            "output_len is 1, but must be at least 2");
  EXPECT_EQ(Refusal({.input_len = 8, .output_len = 8, .repeat = 0}),
            "repeat is 0, but must be at least 1");
  EXPECT_EQ(Refusal({.input_len = 8, .output_len = 8, .repeat = 1, .cached_len = 8}),
            "cached_len is 8, but must be from 0 to 7, one less than input_len");
  EXPECT_EQ(Refusal({.input_len = 8, .output_len = 8, .repeat = 1, .cached_len = -1}),
            "cached_len is -1, but must be from 0 to 7, one less than input_len");
}

TEST_F(LatencyTest, APromptWhoseBeginningIsCachedIsTimedAfterEachRunIfAskedFor) {
  const Result<LatencyResult> with =
      MeasureLatency(*engine_, {.input_len = 40, .output_len = 2, .repeat = 2, .cached_len = 37});
  ASSERT_TRUE(with.ok()) << with.status().message();
  EXPECT_GT(with->median.cached_ttft_s, 0.0);
  EXPECT_EQ(engine_->stats().num_cached_tokens, 2u * 37);

  const Result<LatencyResult> without =
      MeasureLatency(*engine_, {.input_len = 40, .output_len = 2, .repeat = 1});
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(without->median.cached_ttft_s, 0.0);
}

TEST_F(LatencyTest, WithoutAPrefixCacheThereIsNoCachedPromptToTime) {
  EngineOptions options = engine::TinyOptions();
  options.cache.enable_prefix_caching = false;
  const std::unique_ptr<Engine> engine = engine::MakeEngine(options);
  ASSERT_NE(engine, nullptr);
  const Result<LatencyResult> result =
      MeasureLatency(*engine, {.input_len = 40, .output_len = 2, .repeat = 1, .cached_len = 37});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("0 of 37 tokens were found in the cache"));
}

TEST_F(LatencyTest, ARunLongerThanTheContextIsRefusedWithAllThreeFigures) {
  EXPECT_THAT(
      Refusal({.input_len = 90, .output_len = 7, .repeat = 1}),
      AllOf(HasSubstr("input_len 90"), HasSubstr("output_len 7"), HasSubstr("max_model_len 96")));
  EXPECT_THAT(Refusal({.input_len = INT32_MAX, .output_len = INT32_MAX, .repeat = 1}),
              HasSubstr("max_model_len 96"));
  EXPECT_TRUE(MeasureLatency(*engine_, {.input_len = 90, .output_len = 6, .repeat = 1}).ok());
}

TEST_F(LatencyTest, TheMedianIsThatOfEachFigureOfTheRuns) {
  for (int32_t repeat : {1, 3, 4}) {
    const Result<LatencyResult> result =
        MeasureLatency(*engine_, {.input_len = 30, .output_len = 5, .repeat = repeat});
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_EQ(result->runs.size(), static_cast<size_t>(repeat));
    for (double LatencyRun::*field : {&LatencyRun::prefill_tokens_per_s, &LatencyRun::ttft_s,
                                      &LatencyRun::decode_tokens_per_s}) {
      std::vector<double> values;
      for (const LatencyRun& run : result->runs) {
        EXPECT_TRUE(std::isfinite(run.*field));
        EXPECT_GT(run.*field, 0.0);
        values.push_back(run.*field);
      }
      std::sort(values.begin(), values.end());
      const double median = repeat == 4 ? (values[1] + values[2]) / 2 : values[values.size() / 2];
      EXPECT_EQ(result->median.*field, median) << repeat << " runs";
    }
  }
}

// The figures would be those of work that was never done.
TEST_F(LatencyTest, ARunThatEndsEarlyIsAnErrorAndNoSpeed) {
  const engine::ModelWithNaN broken("output_norm.weight");
  EngineOptions options = engine::TinyOptions();
  options.model.path = broken.path();
  const std::unique_ptr<Engine> engine = engine::MakeEngine(options);
  const Result<LatencyResult> result =
      MeasureLatency(*engine, {.input_len = 8, .output_len = 8, .repeat = 1});

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
  EXPECT_THAT(result.status().message(), AllOf(HasSubstr("0 of 8 tokens"), HasSubstr("error")));
}

TEST(SyntheticPromptTest, IdsLieInTheMiddleHalfOfTheVocabularyAndAreFixed) {
  ModelInfo info;
  info.vocab_size = 1000;
  const std::vector<TokenId> prompt = SyntheticPrompt(info, 2000);

  ASSERT_EQ(prompt.size(), 2000u);
  EXPECT_GE(*std::min_element(prompt.begin(), prompt.end()), 250);
  EXPECT_LT(*std::max_element(prompt.begin(), prompt.end()), 750);
  EXPECT_GT(std::set<TokenId>(prompt.begin(), prompt.end()).size(), 400u);
  const std::vector<TokenId> shorter = SyntheticPrompt(info, 50);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), prompt.begin()));
}

TEST(SyntheticPromptTest, TheSmallestVocabularyIsEnough) {
  ModelInfo info;
  info.vocab_size = 1;
  EXPECT_EQ(SyntheticPrompt(info, 3), (std::vector<TokenId>{0, 0, 0}));
}

}  // namespace
}  // namespace octavo::bench
