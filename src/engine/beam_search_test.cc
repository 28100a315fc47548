// The choice of a beam search, on candidates written down by hand.

#include "engine/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;

constexpr TokenId kEos[] = {1};

std::vector<std::pair<int32_t, TokenId>> Listed(const std::vector<BeamChoice>& choices) {
  std::vector<std::pair<int32_t, TokenId>> list;
  for (const BeamChoice& choice : choices) list.emplace_back(choice.parent, choice.token.token_id);
  return list;
}

TEST(BeamSearchTest, TheLikeliestSumsOfAllBeamsGoOn) {
  const std::vector<TokenLogprob> first = {{5, -1.0f, 1}, {6, -1.5f, 2}, {7, -4.0f, 3}};
  const std::vector<TokenLogprob> second = {{8, -0.25f, 1}, {9, -2.0f, 2}, {5, -2.5f, 3}};
  const BeamView beams[] = {{-1.0, first}, {-1.5, second}};
  BeamSearchParams params;
  params.beam_width = 3;

  const BeamStep step = ChooseBeams(params, kEos, beams);

  // -1.75, -2.0, -2.5; then -3.5, -4.0, -5.0
  EXPECT_THAT(Listed(step.going_on),
              ElementsAre(std::pair(1, 8), std::pair(0, 5), std::pair(0, 6)));
  EXPECT_DOUBLE_EQ(step.going_on[0].cumulative_logprob, -1.75);
  EXPECT_TRUE(step.ended.empty());
}

TEST(BeamSearchTest, EndOfTextIsSetAsideAndTakesNoPlace) {
  const std::vector<TokenLogprob> candidates = {{1, -0.5f, 1}, {4, -1.0f, 2}, {3, -2.0f, 3}};
  const BeamView beams[] = {{0.0, candidates}};
  BeamSearchParams params;
  params.beam_width = 2;

  const BeamStep step = ChooseBeams(params, kEos, beams);
  EXPECT_THAT(Listed(step.ended), ElementsAre(std::pair(0, 1)));
  EXPECT_THAT(Listed(step.going_on), ElementsAre(std::pair(0, 4), std::pair(0, 3)));

  params.ignore_eos = true;
  const BeamStep ignoring = ChooseBeams(params, kEos, beams);
  EXPECT_TRUE(ignoring.ended.empty());
  EXPECT_THAT(Listed(ignoring.going_on), ElementsAre(std::pair(0, 1), std::pair(0, 4)));
}

TEST(BeamSearchTest, OfEqualSumsTheLowerBeamComesFirst) {
  const std::vector<TokenLogprob> candidates = {{4, -1.0f, 1}, {5, -1.0f, 2}};
  const BeamView beams[] = {{-1.0, candidates}, {-1.0, candidates}};
  BeamSearchParams params;
  params.beam_width = 3;
  EXPECT_THAT(Listed(ChooseBeams(params, kEos, beams).going_on),
              ElementsAre(std::pair(0, 4), std::pair(0, 5), std::pair(1, 4)));
}

TEST(BeamSearchTest, TheScoreDividesByAPowerOfTheLength) {
  EXPECT_DOUBLE_EQ(BeamScore(-8.0, 4, 1.0f), -2.0);
  EXPECT_DOUBLE_EQ(BeamScore(-8.0, 4, 0.0f), -8.0);
  EXPECT_DOUBLE_EQ(BeamScore(-8.0, 4, 2.0f), -0.5);
  EXPECT_DOUBLE_EQ(BeamScore(-8.0, 4, -1.0f), -32.0);
}

TEST(BeamSearchTest, ParametersOutOfRangeAreRefusedByName) {
  const auto refusal = [](const BeamSearchParams& params) {
    return CheckBeamSearch(params).message();
  };
  EXPECT_EQ(refusal({.beam_width = 0}), "beam_width is 0, but must be in [1, 64]");
  EXPECT_EQ(refusal({.beam_width = 65}), "beam_width is 65, but must be in [1, 64]");
  EXPECT_EQ(refusal({.max_tokens = 0}), "max_tokens is 0, but must be at least 1");
  EXPECT_EQ(refusal({.length_penalty = 11.0f}), "length_penalty is 11, but must be in [-10, 10]");
  EXPECT_TRUE(CheckBeamSearch({}).ok());
}

}  // namespace
}  // namespace octavo::engine
