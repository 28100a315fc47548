// A cache explanation in words.

#include "engine/explanation_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace octavo::engine {
namespace {

using kvcache::BlockExplanation;
using kvcache::BlockMatch;
using kvcache::MissReason;

TEST(ExplanationTextTest, EachOutcomeSaysWhatAndWhy) {
  const auto text = [](const BlockExplanation& block) { return DescribeBlock(block, 5500); };

  EXPECT_EQ(text({BlockMatch::kHit, 16, MissReason::kNone, 0, 0}), "hit");
  EXPECT_EQ(text({BlockMatch::kPartial, 3, MissReason::kNone, 0, 0}), "hit");
  EXPECT_EQ(text({BlockMatch::kPartial, 7, MissReason::kTokensDiffer, 0, 23}),
            "partial: tokens differ at position 23");
  EXPECT_EQ(text({BlockMatch::kMiss, 0, MissReason::kNeverSeen, 0, 0}), "miss: never seen");
  EXPECT_EQ(text({BlockMatch::kMiss, 0, MissReason::kEvicted, 4000, 0}), "miss: evicted 1.5 s ago");
  EXPECT_EQ(text({BlockMatch::kMiss, 0, MissReason::kEvicted, 6000, 0}), "miss: evicted 0.0 s ago");
  EXPECT_EQ(text({BlockMatch::kMiss, 0, MissReason::kCachingDisabled, 0, 0}),
            "miss: caching disabled");
}

TEST(ExplanationTextTest, AShortLastBlockThatIsCachedAsAWholeCountsAsAHit) {
  const ExplanationSummary summary =
      Summarize(std::vector<BlockExplanation>{{BlockMatch::kHit, 8, MissReason::kNone, 0, 0},
                                              {BlockMatch::kPartial, 2, MissReason::kNone, 0, 0}});

  EXPECT_EQ(summary.num_hit_blocks, 2);
  EXPECT_EQ(summary.num_partial_blocks, 0);
  EXPECT_EQ(summary.num_cached_tokens, 10);
}

TEST(ExplanationTextTest, TheNamesAreThoseThatScriptsRelyOn) {
  EXPECT_EQ(BlockMatchName(BlockMatch::kHit), "hit");
  EXPECT_EQ(BlockMatchName(BlockMatch::kPartial), "partial");
  EXPECT_EQ(BlockMatchName(BlockMatch::kMiss), "miss");
  EXPECT_EQ(MissReasonName(MissReason::kNone), "");
  EXPECT_EQ(MissReasonName(MissReason::kNeverSeen), "never_seen");
  EXPECT_EQ(MissReasonName(MissReason::kEvicted), "evicted");
  EXPECT_EQ(MissReasonName(MissReason::kTokensDiffer), "tokens_differ");
  EXPECT_EQ(MissReasonName(MissReason::kCachingDisabled), "caching_disabled");
}

TEST(ExplanationTextTest, TheSummaryCountsTokensAndBlocks) {
  const std::vector<BlockExplanation> blocks = {
      {BlockMatch::kHit, 16, MissReason::kNone, 0, 0},
      {BlockMatch::kHit, 16, MissReason::kNone, 0, 0},
      {BlockMatch::kPartial, 5, MissReason::kNeverSeen, 0, 0},
      {BlockMatch::kMiss, 0, MissReason::kNeverSeen, 0, 0},
      {BlockMatch::kMiss, 0, MissReason::kEvicted, 1, 0},
      {BlockMatch::kMiss, 0, MissReason::kEvicted, 1, 0}};
  const ExplanationSummary summary = Summarize(blocks);

  EXPECT_EQ(summary.num_cached_tokens, 37);
  EXPECT_EQ(summary.num_hit_blocks, 2);
  EXPECT_EQ(summary.num_partial_blocks, 1);
  EXPECT_EQ(summary.num_missed_blocks, 3);
}

}  // namespace
}  // namespace octavo::engine
