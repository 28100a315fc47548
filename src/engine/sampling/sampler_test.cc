#include "engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "engine/sampling/test_row_ops.h"

namespace octavo::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler MakeSampler(const SamplingParams& params, int32_t vocab_size, uint64_t seed = 42) {
  EXPECT_TRUE(params.Validate(vocab_size).ok()) << params.Validate(vocab_size).message();
  return Sampler(params, {.vocab_size = vocab_size, .seed = seed, .row_ops = &TestRowOps()});
}

std::optional<TokenId> SampleRow(Sampler& sampler, std::vector<float> logits,
                                 int64_t position = 0) {
  return sampler.Sample(logits, position);
}

// How often each token is chosen at positions 0 to num_draws - 1.
std::map<TokenId, int> CountDraws(const SamplingParams& params, const std::vector<float>& logits,
                                  int num_draws) {
  Sampler sampler = MakeSampler(params, static_cast<int32_t>(logits.size()));
  std::map<TokenId, int> counts;
  for (int64_t position = 0; position < num_draws; ++position) {
    ++counts[SampleRow(sampler, logits, position).value()];
  }
  return counts;
}

double ChiSquare(const std::map<TokenId, int>& counts, const std::map<TokenId, double>& expected) {
  const int num_draws = std::accumulate(counts.begin(), counts.end(), 0,
                                        [](int sum, const auto& c) { return sum + c.second; });
  double sum = 0.0;
  for (const auto& [token_id, probability] : expected) {
    const auto found = counts.find(token_id);
    const double count = found == counts.end() ? 0.0 : found->second;
    sum += std::pow(count - num_draws * probability, 2) / (num_draws * probability);
  }
  return sum;
}

// Tokens in three blocks of the row with the probabilities 0.4, 0.3, 0.2, 0.05, 0.05; all others
// are masked.
std::vector<float> FiveTokenRow() {
  std::vector<float> logits(600, -kInfinity);
  logits[3] = std::log(0.4f);
  logits[255] = std::log(0.3f);
  logits[256] = std::log(0.2f);
  logits[511] = std::log(0.05f);
  logits[599] = std::log(0.05f);
  return logits;
}

TEST(SamplerTest, GreedyTakesTheLowestIdAmongEquals) {
  SamplingParams params;
  params.temperature = 0.0f;
  Sampler sampler = MakeSampler(params, 4);

  EXPECT_EQ(SampleRow(sampler, {1.0f, 7.0f, 7.0f, -kInfinity}), 1);
}

TEST(SamplerTest, ATemperatureBelowTheSmallestIsGreedy) {
  SamplingParams params;
  params.temperature = 9e-6f;
  Sampler sampler = MakeSampler(params, 2);

  for (int64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(SampleRow(sampler, {7.0f, 7.0f}, position), 0);
  }
}

TEST(SamplerTest, ChoosesNothingFromARowThatIsNotFinite) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    Sampler sampler = MakeSampler(params, 3);

    EXPECT_EQ(SampleRow(sampler, {0.0f, std::nanf(""), 1.0f}), std::nullopt);
    EXPECT_EQ(SampleRow(sampler, {kInfinity, 0.0f, 1.0f}), std::nullopt);
    EXPECT_EQ(SampleRow(sampler, {-kInfinity, -kInfinity, -kInfinity}), std::nullopt);
    EXPECT_NE(SampleRow(sampler, {-kInfinity, -kInfinity, 1.0f}), std::nullopt);
  }
}

TEST(SamplerTest, ANanThatAMaskWouldHideIsStillAnError) {
  SamplingParams params;
  params.allowed_token_ids = {0};
  Sampler sampler = MakeSampler(params, 2);

  EXPECT_EQ(SampleRow(sampler, {0.0f, std::nanf("")}), std::nullopt);
}

TEST(SamplerTest, ChoosesNothingWhenTheMasksLeaveNothing) {
  SamplingParams params;
  params.allowed_token_ids = {1};
  Sampler sampler = MakeSampler(params, 2);

  EXPECT_EQ(SampleRow(sampler, {0.0f, -kInfinity}), std::nullopt);
}

// 18.47: the value that chi-square with 4 degrees of freedom exceeds in one of a thousand seeds.
TEST(SamplerTest, DrawsFollowTheProbabilitiesAcrossBlocks) {
  const auto counts = CountDraws({}, FiveTokenRow(), 20000);

  EXPECT_LT(ChiSquare(counts, {{3, 0.4}, {255, 0.3}, {256, 0.2}, {511, 0.05}, {599, 0.05}}), 18.47);
  EXPECT_EQ(counts.size(), 5u);
}

// At temperature 1/2 the probabilities are squared: 0.16, 0.09, 0.04, 0.0025, 0.0025, together
// 0.295.
TEST(SamplerTest, TemperatureSharpensTheProbabilities) {
  SamplingParams params;
  params.temperature = 0.5f;

  const auto counts = CountDraws(params, FiveTokenRow(), 20000);

  EXPECT_LT(ChiSquare(counts, {{3, 0.16 / 0.295},
                               {255, 0.09 / 0.295},
                               {256, 0.04 / 0.295},
                               {511, 0.0025 / 0.295},
                               {599, 0.0025 / 0.295}}),
            18.47);
}

// 13.82: chi-square with 2 degrees of freedom, one of a thousand.
TEST(SamplerTest, TopKKeepsTheHighestAndSharesTheRest) {
  SamplingParams params;
  params.top_k = 3;

  const auto counts = CountDraws(params, FiveTokenRow(), 20000);

  EXPECT_EQ(counts.size(), 3u);
  EXPECT_LT(ChiSquare(counts, {{3, 0.4 / 0.9}, {255, 0.3 / 0.9}, {256, 0.2 / 0.9}}), 13.82);
}

TEST(SamplerTest, TopKCutsTiesByTheLowestId) {
  SamplingParams params;
  params.top_k = 4;

  const auto counts = CountDraws(params, FiveTokenRow(), 2000);

  EXPECT_TRUE(counts.contains(511));
  EXPECT_FALSE(counts.contains(599));
}

TEST(SamplerTest, TopPKeepsTheFewestThatHoldTheShare) {
  SamplingParams params;
  params.top_p = 0.69f;
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 2000).size(), 2u);
  params.top_p = 0.71f;
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 2000).size(), 3u);
  params.top_p = 0.01f;
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 2000).size(), 1u);
}

// Of the top 2, the first holds 4/7 = 0.571: enough for 0.5, though it is less than half of the
// row.
TEST(SamplerTest, TopPIsAShareOfWhatTopKLeft) {
  SamplingParams params;
  params.top_k = 2;
  params.top_p = 0.5f;
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 500).size(), 1u);
  params.top_p = 0.6f;
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 500).size(), 2u);
}

TEST(SamplerTest, MinPDropsWhatIsTooFarBelowTheHighest) {
  SamplingParams params;
  params.min_p = 0.45f;  // of 0.4: 0.18
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 2000).size(), 3u);
  params.min_p = 0.55f;  // 0.22
  EXPECT_EQ(CountDraws(params, FiveTokenRow(), 2000).size(), 2u);
  params.min_p = 1.0f;
  EXPECT_EQ(CountDraws(params, {1.0f, 2.0f, 2.0f}, 500).size(), 2u);
}

TEST(SamplerTest, TopPOfAFlatRowKeepsItsShareOfTheTokens) {
  SamplingParams params;
  params.top_p = 0.5f;
  const std::vector<float> logits(4000, 1.5f);

  const auto counts = CountDraws(params, logits, 400);

  EXPECT_LT(counts.rbegin()->first, 2001);
  EXPECT_GT(counts.rbegin()->first, 1950);
}

TEST(SamplerTest, ExtremeLogitsAreDrawnWithoutOverflow) {
  SamplingParams params;
  params.temperature = 1e-5f;
  constexpr float kMax = std::numeric_limits<float>::max();

  const auto counts = CountDraws(params, {-kMax, kMax, kMax, 0.0f}, 500);

  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains(1) && counts.contains(2));
}

TEST(SamplerTest, TheDrawDependsOnThePositionAndNotOnTheOrderOfTheCalls) {
  const std::vector<float> logits(1000, 0.0f);
  Sampler forward = MakeSampler({}, 1000), backward = MakeSampler({}, 1000);
  std::vector<TokenId> expected;
  for (int64_t position = 0; position < 64; ++position) {
    expected.push_back(SampleRow(forward, logits, position).value());
  }

  for (int64_t position = 63; position >= 0; --position) {
    EXPECT_EQ(SampleRow(backward, logits, position), expected[static_cast<size_t>(position)]);
    EXPECT_EQ(SampleRow(backward, logits, position), expected[static_cast<size_t>(position)]);
  }
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  EXPECT_GT(expected.size(), 50u);
}

TEST(SamplerTest, SeedAndStreamGiveOtherDraws) {
  const std::vector<float> logits(1000, 0.0f);
  const SamplerContext base = {.vocab_size = 1000, .seed = 1, .row_ops = &TestRowOps()};
  SamplerContext other_seed = base, other_stream = base;
  other_seed.seed = 2;
  other_stream.stream = 1;
  Sampler a({}, base), b({}, other_seed), c({}, other_stream);

  int equal = 0;
  for (int64_t position = 0; position < 20; ++position) {
    const auto token_id = SampleRow(a, logits, position);
    equal += token_id == SampleRow(b, logits, position) ? 1 : 0;
    equal += token_id == SampleRow(c, logits, position) ? 1 : 0;
  }

  EXPECT_LE(equal, 2);
}

TEST(SamplerTest, PenaltiesSeeTheWholeHistory) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.repetition_penalty = 2.0f;
  Sampler sampler = MakeSampler(params, 3);
  const std::vector<float> logits = {8.0f, 5.0f, 3.0f};

  EXPECT_EQ(SampleRow(sampler, logits), 0);
  sampler.AddPrompt(std::vector<TokenId>{0});
  EXPECT_EQ(SampleRow(sampler, logits), 1);
  sampler.AddOutput(1);
  EXPECT_EQ(SampleRow(sampler, logits), 0);
}

TEST(SamplerTest, LogprobsAreThoseOfTheRawRow) {
  SamplingParams params;
  params.temperature = 0.5f;
  params.logit_bias = {{0, -100.0f}};
  params.top_k = 1;
  params.logprobs = 2;
  Sampler sampler = MakeSampler(params, 3);
  std::vector<float> logits = {std::log(0.6f), std::log(0.3f), std::log(0.1f)};
  TokenLogprobs logprobs;

  const auto token_id = sampler.Sample(logits, 0, &logprobs);

  EXPECT_EQ(token_id, 1);
  EXPECT_EQ(logprobs.chosen.token_id, 1);
  EXPECT_NEAR(logprobs.chosen.logprob, std::log(0.3), 1e-6);
  EXPECT_EQ(logprobs.chosen.rank, 2);
  ASSERT_EQ(logprobs.top.size(), 2u);
  EXPECT_EQ(logprobs.top[0].token_id, 0);
  EXPECT_NEAR(logprobs.top[0].logprob, std::log(0.6), 1e-6);
}

}  // namespace
}  // namespace octavo::engine
