#include "engine/sampling/top_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "engine/sampling/test_row_ops.h"

namespace octavo::engine {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

std::vector<TokenId> SelectIds(TopTokens& top_tokens, int64_t n) {
  std::vector<TokenId> ids;
  for (const ScoredToken& token : top_tokens.Select(n)) ids.push_back(token.token_id);
  return ids;
}

TEST(TopTokensTest, EqualLogitsComeInTheOrderOfTheirIds) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, 3.0f, 2.0f, 3.0f};
  TopTokens top_tokens(6, TestRowOps());
  top_tokens.SetRow(logits);

  EXPECT_EQ(SelectIds(top_tokens, 2), (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(SelectIds(top_tokens, 4), (std::vector<TokenId>{1, 3, 5, 2}));
  EXPECT_EQ(SelectIds(top_tokens, 100), (std::vector<TokenId>{1, 3, 5, 2, 4, 0}));
}

TEST(TopTokensTest, NegativeZeroEqualsZeroInShortAndLongRows) {
  for (const int32_t vocab_size : {3, 3000}) {
    std::vector<float> logits(static_cast<size_t>(vocab_size));
    std::vector<TokenId> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = i % 2 == 0 ? -0.0f : 0.0f;
    TopTokens top_tokens(vocab_size, TestRowOps());
    top_tokens.SetRow(logits);

    EXPECT_EQ(SelectIds(top_tokens, vocab_size), ids);
  }
}

TEST(TopTokensTest, EqualsAFullSortOnRandomRowsWithTiesAndMasks) {
  std::mt19937 rng(11);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(testing::Message() << "seed 11, round " << round);
    const int32_t vocab_size = static_cast<int32_t>(1 + rng() % 2000);
    const unsigned levels = 1 + rng() % 500, masked_percent = rng() % 101;
    std::vector<float> logits(static_cast<size_t>(vocab_size));
    for (float& logit : logits) {
      logit = rng() % 100 < masked_percent ? kNegativeInfinity
                                           : static_cast<float>(rng() % levels) - 100.0f;
    }
    std::vector<TokenId> expected(logits.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](TokenId a, TokenId b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    TopTokens top_tokens(vocab_size, TestRowOps());
    top_tokens.SetRow(logits);

    const auto n = static_cast<size_t>(1 + rng() % static_cast<unsigned>(vocab_size));
    expected.resize(n);
    EXPECT_EQ(SelectIds(top_tokens, static_cast<int64_t>(n)), expected);
  }
}

}  // namespace
}  // namespace octavo::engine
