// Loads: how much is sent, when, and what is shared.

#include "bench/serving_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace octavo::bench {
namespace {

LoadOptions Small() {
  LoadOptions options;
  options.num_prompts = 200;
  options.input_len = 40;
  options.output_len = 20;
  options.seed = 7;
  return options;
}

std::vector<Conversation> Make(const LoadOptions& options, const Trace* trace = nullptr) {
  Result<std::vector<Conversation>> load = MakeLoad(options, trace);
  EXPECT_TRUE(load.ok()) << load.status().message();
  return load.ok() ? *std::move(load) : std::vector<Conversation>();
}

TEST(MakeLoadTest, LengthsLieInTheirRangeAndNothingIsShared) {
  LoadOptions options = Small();
  options.range_ratio = 0.5;
  const std::vector<Conversation> load = Make(options);
  ASSERT_EQ(load.size(), 200u);
  std::vector<std::vector<TokenId>> beginnings;
  for (const Conversation& conversation : load) {
    ASSERT_EQ(conversation.turns.size(), 1u);
    const Turn& turn = conversation.turns.front();
    EXPECT_GE(turn.prompt.size(), 20u);
    EXPECT_LE(turn.prompt.size(), 60u);
    EXPECT_GE(turn.num_output_tokens, 10);
    EXPECT_LE(turn.num_output_tokens, 30);
    for (const TokenId id : turn.prompt) EXPECT_TRUE(id >= 1000 && id < options.vocab_size);
    beginnings.emplace_back(turn.prompt.begin(), turn.prompt.begin() + 4);
  }
  std::ranges::sort(beginnings);
  EXPECT_EQ(std::ranges::adjacent_find(beginnings), beginnings.end());
}

TEST(MakeLoadTest, TheSameSeedGivesTheSameLoad) {
  const std::vector<Conversation> a = Make(Small());
  const std::vector<Conversation> b = Make(Small());
  LoadOptions other = Small();
  other.seed = 8;
  EXPECT_EQ(a.back().turns.front().prompt, b.back().turns.front().prompt);
  EXPECT_NE(a.back().turns.front().prompt, Make(other).back().turns.front().prompt);
}

TEST(MakeLoadTest, ASharedPrefixStandsBeforeEveryPrompt) {
  LoadOptions options = Small();
  options.dataset = Dataset::kSharedPrefix;
  options.prefix_len = 100;
  const std::vector<Conversation> load = Make(options);
  const std::vector<TokenId>& first = load.front().turns.front().prompt;
  for (const Conversation& conversation : load) {
    const std::vector<TokenId>& prompt = conversation.turns.front().prompt;
    ASSERT_EQ(prompt.size(), 140u);
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + 100, prompt.begin()));
  }
}

TEST(MakeLoadTest, ATurnBeginsWithTheTurnsBefore) {
  LoadOptions options = Small();
  options.dataset = Dataset::kMultiTurn;
  options.num_prompts = 10;
  options.num_turns = 4;
  const std::vector<Conversation> load = Make(options);
  ASSERT_EQ(load.size(), 3u);
  EXPECT_EQ(load.back().turns.size(), 2u);  // 4 + 4 + 2 = 10
  for (const Conversation& conversation : load) {
    for (size_t i = 1; i < conversation.turns.size(); ++i) {
      const std::vector<TokenId>& before = conversation.turns[i - 1].prompt;
      const std::vector<TokenId>& prompt = conversation.turns[i].prompt;
      ASSERT_EQ(prompt.size(), before.size() + 20 + 40);
      EXPECT_TRUE(std::equal(before.begin(), before.end(), prompt.begin()));
    }
  }
}

// The mean of 2,000 gaps is within 10 % of 1 / rate, and their variation that of the gamma
// distribution: 1 for Poisson arrivals, above for bursts.
TEST(MakeLoadTest, ArrivalsHaveTheRateAndTheBurstinessThatWereAskedFor) {
  for (const double burstiness : {1.0, 0.25}) {
    LoadOptions options = Small();
    options.num_prompts = 2000;
    options.input_len = 1;
    options.request_rate = 5.0;
    options.burstiness = burstiness;
    const std::vector<Conversation> load = Make(options);
    double sum = 0.0, squares = 0.0;
    const size_t count = load.size() - 1;
    for (size_t i = 0; i < count; ++i) {
      const double gap = load[i + 1].arrival_s - load[i].arrival_s;
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / static_cast<double>(count);
    const double deviation = std::sqrt(squares / static_cast<double>(count) - mean * mean);
    EXPECT_NEAR(mean, 0.2, 0.02);
    EXPECT_NEAR(deviation / mean, 1.0 / std::sqrt(burstiness), 0.2) << burstiness;
  }
}

TEST(MakeLoadTest, ATraceGivesArrivalsLengthsAndWhatIsShared) {
  const Result<Trace> trace = ParseTrace(
      "t",
      R"({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]})"
      "\n"
      R"({"timestamp": 1500, "input_length": 700, "output_length": 9000, "hash_ids": [1, 3]})");
  ASSERT_TRUE(trace.ok());
  LoadOptions options = Small();
  options.dataset = Dataset::kTrace;
  options.max_model_len = 1000;
  const std::vector<Conversation> load = Make(options, &*trace);
  ASSERT_EQ(load.size(), 2u);
  EXPECT_EQ(load[1].arrival_s, 1.5);
  const std::vector<TokenId>& a = load[0].turns.front().prompt;
  const std::vector<TokenId>& b = load[1].turns.front().prompt;
  EXPECT_EQ(a.size(), 600u);
  EXPECT_EQ(load[1].turns.front().num_output_tokens, 500);
  EXPECT_EQ(b.size(), 500u);
  EXPECT_TRUE(std::equal(b.begin(), b.end(), a.begin()));
}

TEST(MakeLoadTest, OptionsOutOfRangeAreNamed) {
  LoadOptions options = Small();
  options.range_ratio = 1.5;
  EXPECT_EQ(MakeLoad(options, nullptr).status().message(),
            "--random-range-ratio is 1.5, but must be in [0, 0.99]");
  options = Small();
  options.dataset = Dataset::kTrace;
  EXPECT_FALSE(MakeLoad(options, nullptr).ok());
}

}  // namespace
}  // namespace octavo::bench
