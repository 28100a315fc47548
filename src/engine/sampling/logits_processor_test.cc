#include "engine/sampling/logits_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace octavo::engine {
namespace {

using testing::ElementsAre;

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr TokenId kEos = 1;
const std::vector<TokenId> kEosIds = {kEos};

TEST(LogitsProcessorTest, LeavesTheRowAloneWithTheDefaults) {
  LogitsProcessor processor(SamplingParams{}, kEosIds, 3);
  processor.AddPrompt(std::vector<TokenId>{0, 1, 2});
  processor.AddOutput(2);
  std::vector<float> logits = {1.0f, 2.0f, 3.0f};

  EXPECT_FALSE(processor.Apply(logits));

  EXPECT_THAT(logits, ElementsAre(1.0f, 2.0f, 3.0f));
}

TEST(LogitsProcessorTest, RepetitionPenaltySeesPromptAndOutputOnceEach) {
  SamplingParams params;
  params.repetition_penalty = 2.0f;
  LogitsProcessor processor(params, kEosIds, 4);
  processor.AddPrompt(std::vector<TokenId>{0, 0, 0});
  processor.AddOutput(1);
  processor.AddOutput(1);
  processor.AddOutput(0);
  std::vector<float> logits = {4.0f, -4.0f, 4.0f, -4.0f};

  EXPECT_TRUE(processor.Apply(logits));

  EXPECT_THAT(logits, ElementsAre(2.0f, -8.0f, 4.0f, -4.0f));
}

TEST(LogitsProcessorTest, PresenceAndFrequencySeeTheOutputOnly) {
  SamplingParams params;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 1.0f;
  LogitsProcessor processor(params, kEosIds, 3);
  processor.AddPrompt(std::vector<TokenId>{0, 0, 2});
  processor.AddOutput(1);
  processor.AddOutput(1);
  processor.AddOutput(2);
  std::vector<float> logits = {8.0f, 8.0f, 8.0f};

  processor.Apply(logits);

  EXPECT_THAT(logits, ElementsAre(8.0f, 5.5f, 6.5f));
}

TEST(LogitsProcessorTest, BiasComesBeforeTheRepetitionPenalty) {
  SamplingParams params;
  params.logit_bias = {{0, 6.0f}};
  params.repetition_penalty = 2.0f;
  LogitsProcessor processor(params, kEosIds, 2);
  processor.AddPrompt(std::vector<TokenId>{0});
  std::vector<float> logits = {-2.0f, 0.0f};

  processor.Apply(logits);

  EXPECT_THAT(logits, ElementsAre(2.0f, 0.0f));
}

TEST(LogitsProcessorTest, MasksAllButTheAllowedTokensAndABiasCannotUndoIt) {
  SamplingParams params;
  params.allowed_token_ids = {3, 0, 3};
  params.logit_bias = {{1, 100.0f}};
  LogitsProcessor processor(params, kEosIds, 5);
  std::vector<float> logits = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};

  processor.Apply(logits);

  EXPECT_THAT(logits, ElementsAre(1.0f, kMasked, kMasked, 4.0f, kMasked));
}

TEST(LogitsProcessorTest, MasksEndAndStopTokensUntilMinTokensEvenWithIgnoreEos) {
  SamplingParams params;
  params.min_tokens = 2;
  params.stop_token_ids = {2};
  params.ignore_eos = true;
  LogitsProcessor processor(params, kEosIds, 3);

  for (int num_output_tokens = 0; num_output_tokens < 2; ++num_output_tokens) {
    std::vector<float> logits = {1.0f, 2.0f, 3.0f};
    EXPECT_TRUE(processor.Apply(logits));
    EXPECT_THAT(logits, ElementsAre(1.0f, kMasked, kMasked)) << num_output_tokens;
    processor.AddOutput(0);
  }
  std::vector<float> logits = {1.0f, 2.0f, 3.0f};
  EXPECT_FALSE(processor.Apply(logits));
  EXPECT_THAT(logits, ElementsAre(1.0f, 2.0f, 3.0f));
}

TEST(LogitsProcessorTest, ATinyRepetitionPenaltyStaysFinite) {
  SamplingParams params;
  params.repetition_penalty = 1e-38f;
  LogitsProcessor processor(params, kEosIds, 2);
  processor.AddPrompt(std::vector<TokenId>{0});
  std::vector<float> logits = {50.0f, 1.0f};

  processor.Apply(logits);

  EXPECT_THAT(logits, ElementsAre(std::numeric_limits<float>::max(), 1.0f));
}

TEST(LogitsProcessorTest, EosIdsOutsideTheVocabularyAreIgnored) {
  SamplingParams params;
  params.min_tokens = 1;
  LogitsProcessor processor(params, std::vector<TokenId>{kNoToken, 7, 0}, 2);
  std::vector<float> logits = {1.0f, 2.0f};

  processor.Apply(logits);

  EXPECT_THAT(logits, ElementsAre(kMasked, 2.0f));
}

TEST(CheckTokensCanBeChosenTest, RefusesAllowedTokensThatMinTokensForbids) {
  SamplingParams params;
  params.allowed_token_ids = {kEos, 4};
  params.stop_token_ids = {4};
  EXPECT_TRUE(CheckTokensCanBeChosen(params, kEosIds).ok());

  params.min_tokens = 5;
  const Status status = CheckTokensCanBeChosen(params, kEosIds);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "allowed_token_ids holds only tokens that end the request, but min_tokens is 5, so must "
      "hold another");

  params.allowed_token_ids.push_back(3);
  EXPECT_TRUE(CheckTokensCanBeChosen(params, kEosIds).ok());
}

}  // namespace
}  // namespace octavo::engine
