#include "engine/sampling/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/sampling/test_row_ops.h"

namespace octavo::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void ExpectToken(const TokenLogprob& actual, TokenId token_id, double probability, int32_t rank) {
  EXPECT_EQ(actual.token_id, token_id);
  EXPECT_NEAR(actual.logprob, std::log(probability), 1e-6);
  EXPECT_EQ(actual.rank, rank);
}

// Logits log(1), log(4), log(2), log(1): probabilities 1/8, 1/2, 1/4, 1/8.
std::vector<float> HandRow() { return {0.0f, std::log(4.0f), std::log(2.0f), 0.0f}; }

TEST(LogprobReporterTest, ReportsTheChosenTokenWithItsRankAndTheMostLikely) {
  LogprobReporter reporter(3, 4, TestRowOps());

  const auto logprobs = reporter.Report(HandRow(), 3);

  ASSERT_TRUE(logprobs.has_value());
  ExpectToken(logprobs->chosen, 3, 1.0 / 8, 4);
  ASSERT_EQ(logprobs->top.size(), 3u);
  ExpectToken(logprobs->top[0], 1, 1.0 / 2, 1);
  ExpectToken(logprobs->top[1], 2, 1.0 / 4, 2);
  ExpectToken(logprobs->top[2], 0, 1.0 / 8, 3);
}

TEST(LogprobReporterTest, ZeroReportsTheChosenTokenOnly) {
  LogprobReporter reporter(0, 4, TestRowOps());

  const auto logprobs = reporter.Report(HandRow(), 2);

  ASSERT_TRUE(logprobs.has_value());
  ExpectToken(logprobs->chosen, 2, 1.0 / 4, 2);
  EXPECT_TRUE(logprobs->top.empty());
}

TEST(LogprobReporterTest, MinusOneReportsTheWholeVocabulary) {
  constexpr int32_t kVocabSize = 700;
  std::mt19937 rng(5);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(kVocabSize);
  for (float& logit : logits) logit = normal(rng);
  LogprobReporter reporter(-1, kVocabSize, TestRowOps());

  const auto logprobs = reporter.Report(logits, 123);

  ASSERT_TRUE(logprobs.has_value());
  ASSERT_EQ(logprobs->top.size(), static_cast<size_t>(kVocabSize));
  double total = 0.0;
  for (const TokenLogprob& token : logprobs->top) {
    total += std::exp(static_cast<double>(token.logprob));
    if (token.token_id == 123) {
      EXPECT_EQ(token.rank, logprobs->chosen.rank);
      EXPECT_EQ(token.logprob, logprobs->chosen.logprob);
    }
  }
  EXPECT_NEAR(total, 1.0, 1e-5);
}

TEST(LogprobReporterTest, EqualLogitsRankByTheirId) {
  const std::vector<float> logits = {2.0f, 5.0f, 5.0f, 5.0f};
  LogprobReporter reporter(2, 4, TestRowOps());

  EXPECT_EQ(reporter.Report(logits, 1)->chosen.rank, 1);
  EXPECT_EQ(reporter.Report(logits, 3)->chosen.rank, 3);
  EXPECT_EQ(reporter.Report(logits, 0)->chosen.rank, 4);
  EXPECT_EQ(reporter.Report(logits, 0)->top[1].token_id, 2);
}

TEST(LogprobReporterTest, ReportsNothingForARowThatIsNotFinite) {
  LogprobReporter reporter(2, 3, TestRowOps());

  EXPECT_FALSE(reporter.Report(std::vector<float>{0.0f, std::nanf(""), 1.0f}, 0).has_value());
  EXPECT_FALSE(reporter.Report(std::vector<float>{0.0f, kInfinity, 1.0f}, 0).has_value());
  EXPECT_FALSE(reporter.Report(std::vector<float>(3, -kInfinity), 0).has_value());
}

}  // namespace
}  // namespace octavo::engine
