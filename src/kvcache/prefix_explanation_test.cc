#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kvcache/manager_fixture.h"

namespace octavo::kvcache {
namespace {

using testing::Each;
using testing::Field;

class PrefixExplanationTest : public ManagerFixture {
 protected:
  std::vector<BlockExplanation> Explain(const std::vector<int32_t>& tokens,
                                        std::string_view root = kRoot) const {
    return manager_->Explain(root, tokens);
  }
};

TEST_F(PrefixExplanationTest, HitsAreFollowedByThePartThatMatchesAndWhereItDiffers) {
  Make(8);
  const CachedSequence sequence = Run(Tokens(0, 24));
  std::vector<int32_t> prompt = Tokens(0, 30);
  prompt[19] = 500;

  const auto blocks = Explain(prompt);

  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0].match, BlockMatch::kHit);
  EXPECT_EQ(blocks[1].match, BlockMatch::kHit);
  EXPECT_EQ(blocks[1].num_cached_tokens, 8);
  EXPECT_EQ(blocks[1].reason, MissReason::kNone);
  EXPECT_EQ(blocks[2].match, BlockMatch::kPartial);
  EXPECT_EQ(blocks[2].num_cached_tokens, 3);
  EXPECT_EQ(blocks[2].reason, MissReason::kTokensDiffer);
  EXPECT_EQ(blocks[2].differs_at, 19);
  EXPECT_EQ(blocks[3].match, BlockMatch::kMiss);
  EXPECT_EQ(blocks[3].reason, MissReason::kNeverSeen);
}

TEST_F(PrefixExplanationTest, APromptThatEndsInsideCachedContentMissesNothing) {
  Make(8);
  const CachedSequence sequence = Run(Tokens(0, 16));

  const auto blocks = Explain(Tokens(0, 12));

  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[1].match, BlockMatch::kPartial);
  EXPECT_EQ(blocks[1].num_cached_tokens, 4);
  EXPECT_EQ(blocks[1].reason, MissReason::kNone);
}

TEST_F(PrefixExplanationTest, WhereTheCachedContentJustEndsTheRestWasNeverSeen) {
  Make(8);
  const CachedSequence sequence = Run(Tokens(0, 12));

  const auto blocks = Explain(Tokens(0, 24));

  EXPECT_EQ(blocks[1].match, BlockMatch::kPartial);
  EXPECT_EQ(blocks[1].reason, MissReason::kNeverSeen);
  EXPECT_EQ(blocks[2].reason, MissReason::kNeverSeen);
}

TEST_F(PrefixExplanationTest, ADifferenceAtABlocksFirstTokenIsOneBehindAHitOnly) {
  Make(8);
  const CachedSequence sequence = Run(Tokens(0, 16));
  std::vector<int32_t> prompt = Tokens(0, 16);
  prompt[8] = 500;

  EXPECT_EQ(Explain(prompt)[1].reason, MissReason::kTokensDiffer);
  EXPECT_EQ(Explain(prompt)[1].differs_at, 8);
  EXPECT_EQ(Explain(Tokens(500, 8))[0].reason, MissReason::kNeverSeen);
}

TEST_F(PrefixExplanationTest, WhatWasEvictedSaysWhenAndStopsSayingSoWhenItIsBack) {
  Make(4);
  { const CachedSequence sequence = Run(Tokens(0, 24)); }
  manager_->SetNow(700);
  EXPECT_EQ(EvictionOrder(3).size(), 3u);  // one free block and two evicted ones

  const auto blocks = Explain(Tokens(0, 24));

  EXPECT_EQ(blocks[0].match, BlockMatch::kHit);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(blocks[i].match, BlockMatch::kMiss);
    EXPECT_EQ(blocks[i].reason, MissReason::kEvicted);
    EXPECT_EQ(blocks[i].evicted_at_ms, 700);
  }
  { const CachedSequence again = Run(Tokens(0, 16)); }
  EXPECT_EQ(Explain(Tokens(0, 24))[1].match, BlockMatch::kHit);
  EXPECT_EQ(Explain(Tokens(0, 24))[2].reason, MissReason::kEvicted);
}

TEST_F(PrefixExplanationTest, AnEvictionIsForgottenAfterTwiceThePoolOfOthers) {
  Make(2);  // four evictions are remembered
  { const CachedSequence sequence = Run(Tokens(0, 8)); }
  for (int32_t i = 1; i <= 2; ++i) {
    const CachedSequence other = Run(Tokens(1000 * i, 16));
    EXPECT_EQ(Explain(Tokens(0, 8))[0].reason, MissReason::kEvicted) << i;
  }
  const CachedSequence other = Run(Tokens(3000, 16));

  EXPECT_EQ(Explain(Tokens(0, 8))[0].reason, MissReason::kNeverSeen);
}

TEST_F(PrefixExplanationTest, WhatAnotherRootHoldsOrHeldReadsNeverSeen) {
  Make(4);
  { const CachedSequence evicted = Run(Tokens(100, 16), "tenant 1"); }
  EXPECT_EQ(EvictionOrder(4).size(), 4u);
  const CachedSequence held = Run(Tokens(0, 16), "tenant 1");

  for (const char* root : {"tenant 2", kRoot.data()}) {
    for (const int32_t first : {0, 100}) {
      EXPECT_THAT(Explain(Tokens(first, 16), root),
                  Each(Field(&BlockExplanation::reason, MissReason::kNeverSeen)));
    }
  }
  EXPECT_EQ(Explain(Tokens(100, 16), "tenant 1")[0].reason, MissReason::kEvicted);
}

TEST_F(PrefixExplanationTest, WithPrefixCachingOffThatIsTheReason) {
  manager_.emplace(KvCacheOptions{
      .num_blocks = 4, .block_size_tokens = kBlockSize, .enable_prefix_caching = false});

  EXPECT_THAT(Explain(Tokens(0, 20)),
              Each(Field(&BlockExplanation::reason, MissReason::kCachingDisabled)));
  EXPECT_EQ(Explain(Tokens(0, 20)).size(), 3u);
}

}  // namespace
}  // namespace octavo::kvcache
